#include <cmath>

#include "kernels/divergence/divergence_reference.h"
#include "kernels/fused_linear/logit_divergence_reference.h"
#include "tests/kernels/fused_linear/library/linear_call.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::fused_linear_jsd_test {
namespace {

using Desc = ligerdsl_fused_linear_jsd_desc_t;
using Args = ligerdsl_fused_linear_jsd_args_t;

// One problem: data, descriptor, results and expected results.
struct Pupil {
  int64_t n, h, target_h, v;
  DType type;
  Desc desc = LIGERDSL_FUSED_LINEAR_JSD_DESC_INIT;
  std::vector<int64_t> labels;
  int64_t label_stride = 1;
  Tensor x, weight, target_x, target_weight, label_tensor, d_loss, loss, d_x, d_weight;
  Values upstream{1.0}, d_weight_before;

  Pupil(int64_t rows, int64_t width, int64_t target_width, int64_t classes, DType of = f32,
        int64_t gap = 0)
      : n(rows), h(width), target_h(target_width), v(classes), type(of) {
    const auto head = [&](int64_t cols, uint64_t seed) {
      return random_rows(type, v, cols, seed, gap, 1.0 / std::sqrt(static_cast<double>(cols)));
    };
    x = random_rows(type, n, h, 21, gap);
    weight = head(h, 22);
    target_x = random_rows(type, n, target_h, 23, gap);
    target_weight = head(target_h, 24);
    loss = Tensor(f32, {1});
    d_loss = Tensor(f32, {1}).fill(Values{1.0});
    d_x = Tensor::rows(type, n, h, gap);
    d_weight = Tensor::rows(f32, v, h, gap);
    desc.n_classes = v;
    desc.n_cols = h;
    desc.n_target_cols = target_h;
    desc.dtype = code_of(type);
    desc.d_weight_dtype = LIGERDSL_F32;
    desc.with_d_x = 1;
    desc.products = products();
    if (type == f16) set_upstream(1024);  // gradients divided by the row count need a loss scale
  }
  void set_upstream(double value) {
    upstream = {value};
    d_loss.fill(upstream);
    desc.with_d_loss = 1;
  }
  void ignoring() {
    desc.label_dtype = LIGERDSL_I64;
    for (int64_t i = 0; i < n; ++i) labels.push_back(i % 3 == 1 ? desc.ignore_index : i);
  }
  void set_d_weight_type(DType to) {
    desc.d_weight_dtype = code_of(to);
    d_weight = Tensor(to, {v, h});
  }
  Args arguments(Transfer& transfer) {
    Args args = LIGERDSL_FUSED_LINEAR_JSD_ARGS_INIT;
    args.x = transfer(x);
    args.weight = transfer(weight);
    args.target_x = transfer(target_x);
    args.target_weight = transfer(target_weight);
    label_tensor = Tensor(i64, {n}, {label_stride});
    if (desc.label_dtype) args.labels = transfer(label_tensor.fill(labels));
    if (desc.with_d_loss) args.d_loss = transfer(d_loss);
    if (!desc.without_loss) args.loss = transfer(loss);
    if (desc.with_d_x) args.d_x = transfer(desc.in_place ? x : d_x);
    if (desc.d_weight_dtype) args.d_weight = transfer(d_weight);
    return args;
  }
  ligerdsl_status_t execute() {
    ligerdsl_plan_t plan = nullptr;
    require(ligerdsl_fused_linear_jsd_plan(context(), &desc, &plan));
    Transfer transfer;
    const Args args = arguments(transfer);
    const size_t answer = ligerdsl_plan_workspace_bytes_for(plan, n),
                 bytes = answer == SIZE_MAX ? 0 : answer;
    const ligerdsl_status_t status =
        ligerdsl_fused_linear_jsd_execute(plan, &args, transfer.memory(bytes), bytes, nullptr);
    transfer.back();
    ligerdsl_plan_destroy(plan);
    return status;
  }
  void run() { require(execute()); }
  size_t workspace_bytes(int64_t rows) const {
    ligerdsl_plan_t plan = nullptr;
    require(ligerdsl_fused_linear_jsd_plan(context(), &desc, &plan));
    const size_t bytes = ligerdsl_plan_workspace_bytes_for(plan, rows);
    ligerdsl_plan_destroy(plan);
    return bytes;
  }
  LogitDivergenceResult expected() const {
    const DivergenceCase c{
        .kind = DivergenceKind::jsd,
        .n = n,
        .cols = v,
        .reduction = desc.reduction == LIGERDSL_REDUCTION_SUM    ? DivergenceReduce::sum
                     : desc.reduction == LIGERDSL_REDUCTION_MEAN ? DivergenceReduce::mean
                                                                 : DivergenceReduce::batchmean,
        .beta = desc.beta,
        .labels = labels,
        .ignore_index = desc.ignore_index,
        .upstream = upstream};
    return logit_divergence_reference(product_logits(x, weight, n, h, v),
                                      product_logits(target_x, target_weight, n, target_h, v), c,
                                      desc.temperature == 0 ? 1 : desc.temperature);
  }
  double gate() const { return type == f32 ? 1e-5 : type == f16 ? 1e-3 : 6e-3; }
  void check() {
    SCOPED_TRACE(std::string(name(type)) + " n=" + std::to_string(n) + " h=" + std::to_string(h) +
                 " " + std::to_string(target_h) + " v=" + std::to_string(v) + " chunk " +
                 std::to_string(desc.chunk_rows) + " beta " + std::to_string(desc.beta) +
                 " temperature " + std::to_string(desc.temperature));
    const LogitDivergenceResult right = expected();
    auto gradients = product_gradients(right.d_logits, x, weight, n, h, v);
    for (size_t i = 0; i < d_weight_before.size(); ++i) gradients.w[i] += d_weight_before[i];
    run();
    if (!desc.without_loss) {
      EXPECT_TRUE(close_loss(loss.values(), {right.loss}, type == f32 || !on_gpu() ? 5e-6 : 2e-3))
          << "loss";
    }
    if (desc.with_d_x) {
      EXPECT_TRUE(close_normwise((desc.in_place ? x : d_x).values(), gradients.x, gate())) << "d_x";
    }
    if (desc.d_weight_dtype) {
      EXPECT_TRUE(close_normwise(d_weight.values(), gradients.w, gate())) << "d_weight";
    }
    for (const Tensor& t : {loss, d_x, d_weight, x}) EXPECT_TRUE(t.untouched_outside());
  }
};

class FusedLinearJsd : public WithProducts {};
INSTANTIATE_TEST_SUITE_P(Products, FusedLinearJsd, makers_of_products(), products_name);

TEST_P(FusedLinearJsd, ShapesAndTypes) {
  LIGERDSL_SKIP_LONG_EMULATION();
  const int64_t shapes[][4] = {
      {4, 8, 8, 8}, {63, 41, 20, 41}, {188, 31, 62, 123}, {1, 1, 1, 1}, {12, 64, 16, 9001}};
  for (const auto& [n, h, target_h, v] : shapes)
    for (DType type : kFloats) Pupil(n, h, target_h, v, type, n % 2 * 3).check();
}

TEST_P(FusedLinearJsd, BetaAndTemperature) {
  for (float beta : {0.0f, 0.1f, 0.5f, 1.0f}) {
    for (float temperature : {0.0f, 1.0f, 2.0f}) {
      for (DType type : {f32, bf16}) {
        Pupil pupil(19, 24, 40, 75, type);
        pupil.desc.beta = beta;
        pupil.desc.temperature = temperature;
        pupil.check();
      }
    }
  }
}

TEST_P(FusedLinearJsd, EveryChunkSizeGivesTheSame) {
  for (DType type : {f32, bf16}) {
    for (int64_t chunk : {1, 5, 16, 37, 100}) {
      Pupil pupil(37, 19, 30, 75, type);
      pupil.ignoring();
      pupil.desc.chunk_rows = chunk;
      pupil.check();
    }
  }
}

TEST_P(FusedLinearJsd, ReductionsLabelsAndUpstream) {
  for (int32_t reduction :
       {LIGERDSL_REDUCTION_SUM, LIGERDSL_REDUCTION_MEAN, LIGERDSL_REDUCTION_BATCHMEAN}) {
    Pupil pupil(13, 12, 15, 40);
    pupil.desc.reduction = reduction;
    pupil.desc.chunk_rows = 4;
    pupil.check();
    pupil.ignoring();
    pupil.label_stride = 3;
    pupil.set_upstream(-2.5);
    pupil.check();
  }
}

TEST_P(FusedLinearJsd, GradientsAreIndependent) {
  for (const auto& [with_d_x, with_d_weight, with_loss] :
       {std::tuple(1, 0, 1), {0, 1, 1}, {0, 0, 1}, {1, 1, 0}, {1, 0, 0}}) {
    for (DType type : {f32, bf16}) {
      Pupil pupil(10, 15, 8, 31, type);
      pupil.desc.with_d_x = with_d_x;
      if (!with_d_weight) pupil.desc.d_weight_dtype = 0;
      pupil.desc.without_loss = !with_loss;
      pupil.desc.chunk_rows = 4;
      pupil.check();
    }
  }
}

TEST_P(FusedLinearJsd, Accumulate) {
  Pupil pupil(20, 12, 8, 33, bf16);
  pupil.desc.accumulate = 1;
  pupil.d_weight_before = Random(32).normals(33 * 12);
  for (double& value : pupil.d_weight_before) value = static_cast<float>(value);
  pupil.d_weight.fill(pupil.d_weight_before);
  pupil.desc.chunk_rows = 6;
  pupil.check();
}

TEST_P(FusedLinearJsd, GradientsInTheParametersType) {
  for (DType type : {f16, bf16}) {
    for (int64_t chunk : {0, 4}) {
      Pupil pupil(18, 12, 8, 33, type);
      pupil.set_d_weight_type(type);
      pupil.desc.chunk_rows = chunk;
      pupil.check();
    }
  }
}

TEST_P(FusedLinearJsd, InPlace) {
  for (DType type : {f32, bf16}) {
    Pupil pupil(18, 12, 8, 33, type);
    pupil.desc.in_place = 1;
    pupil.desc.chunk_rows = 5;
    pupil.check();
  }
}

TEST_P(FusedLinearJsd, TwoRunsAreBitIdentical) {
  Pupil first(50, 24, 20, 300, bf16), second(50, 24, 20, 300, bf16);
  for (Pupil* pupil : {&first, &second}) {
    pupil->desc.chunk_rows = 16;
    pupil->run();
  }
  EXPECT_TRUE(first.loss.same_bits(second.loss));
  EXPECT_TRUE(first.d_x.same_bits(second.d_x));
  EXPECT_TRUE(first.d_weight.same_bits(second.d_weight));
}

TEST_P(FusedLinearJsd, NoValidRows) {
  Pupil ignored(5, 12, 8, 33), none(0, 12, 8, 33);
  ignored.desc.label_dtype = LIGERDSL_I64;
  ignored.labels.assign(5, ignored.desc.ignore_index);
  for (Pupil* pupil : {&ignored, &none}) {
    pupil->run();
    EXPECT_EQ(pupil->loss.get(0), 0);
    for (const Tensor& t : {pupil->d_x, pupil->d_weight})
      for (double value : t.values()) EXPECT_EQ(value, 0);
  }
}

// A NaN affects its row's gradient, the loss and d_weight. Ignored rows may hold anything.
TEST_P(FusedLinearJsd, NotFinite) {
  for (const bool counts : {true, false}) {
    for (const bool teacher : {true, false}) {
      Pupil pupil(7, 12, 8, 33);
      pupil.ignoring();  // ignores rows 1 and 4
      const int64_t row = counts ? 2 : 1;
      (teacher ? pupil.target_x : pupil.x).set(row * (teacher ? 8 : 12) + 3, NAN);
      pupil.run();
      EXPECT_EQ(std::isnan(pupil.loss.get(0)), counts);
      for (int64_t i = 0; i < 7 * 12; ++i)
        ASSERT_EQ(std::isnan(pupil.d_x.get(i)), counts && i / 12 == row) << i;
      EXPECT_EQ(std::isnan(pupil.d_weight.get(0)), counts);
    }
  }
}

TEST_P(FusedLinearJsd, WorkspaceStaysBelowItsLimit) {
  LIGERDSL_SKIP_LONG_EMULATION();
  for (DType type : {f32, bf16}) {
    Pupil pupil(300, 16, 12, 400, type);
    const size_t whole = pupil.workspace_bytes(300);
    pupil.desc.chunk_rows = 1;
    const size_t least = pupil.workspace_bytes(300);
    pupil.desc.chunk_rows = 0;
    for (size_t limit : {least + 2048, least + 100000, (least + whole) / 2}) {
      pupil.desc.max_workspace_bytes = static_cast<int64_t>(limit);
      EXPECT_LE(pupil.workspace_bytes(300), limit);
      EXPECT_GT(pupil.workspace_bytes(300), limit - limit / 3) << "room is left unused";
      pupil.check();
    }
    pupil.desc.max_workspace_bytes = 1000;
    EXPECT_EQ(pupil.workspace_bytes(300), SIZE_MAX);
    EXPECT_EQ(pupil.execute(), LIGERDSL_INVALID_ARGUMENT);
    EXPECT_NE(std::string(ligerdsl_last_error()).find("`max_workspace_bytes`: expected at least"),
              std::string::npos)
        << ligerdsl_last_error();
  }
}

// Unaligned rows, with and without room for aligned copies of both weights (51,200 bytes on a GPU).
TEST_P(FusedLinearJsd, UnalignedRows) {
  Pupil pupil(30, 21, 11, 200, bf16);
  for (const int64_t limit : {0, 200'000, 60'000}) {
    // A CPU converts the weights to f32, and a matrix library needs 32 MiB.
    if (limit > 0 && (!on_gpu() || GetParam() == Products::library)) continue;
    pupil.desc.max_workspace_bytes = limit;
    if (limit > 0) {
      EXPECT_LE(pupil.workspace_bytes(30), static_cast<size_t>(limit));
    }
    pupil.check();
  }
}

TEST_P(FusedLinearJsd, OneCall) {
  Pupil pupil(12, 10, 14, 50);
  Transfer transfer;
  const Args args = pupil.arguments(transfer);
  const Desc desc = LIGERDSL_FUSED_LINEAR_JSD_DESC_INIT;
  require(ligerdsl_fused_linear_jsd(context(), &desc, &args, nullptr));
  transfer.back();
  EXPECT_TRUE(close_loss(pupil.loss.values(), {pupil.expected().loss}, 5e-6));
}

TEST_P(FusedLinearJsd, Misuse) {
  const auto refused = [](const Desc& desc, ligerdsl_status_t expected, const char* words) {
    ligerdsl_plan_t plan = nullptr;
    EXPECT_EQ(ligerdsl_fused_linear_jsd_plan(context(), &desc, &plan), expected);
    EXPECT_NE(std::string(ligerdsl_last_error()).find(words), std::string::npos)
        << ligerdsl_last_error();
    ligerdsl_plan_destroy(plan);
  };
  Pupil pupil(4, 8, 8, 8, bf16);
  Desc desc = pupil.desc;
  desc.d_weight_dtype = LIGERDSL_F16;
  refused(desc, LIGERDSL_INVALID_DTYPE, "`d_weight_dtype`: expected f32 or bf16, got f16");
  desc = pupil.desc;
  desc.reduction = LIGERDSL_REDUCTION_NONE;
  refused(desc, LIGERDSL_INVALID_ARGUMENT, "`reduction`");
  desc = pupil.desc;
  desc.beta = 1.5f;
  refused(desc, LIGERDSL_INVALID_ARGUMENT, "`beta`: expected 0 <= beta <= 1, got 1.5");
  desc = pupil.desc;
  desc.with_d_x = desc.d_weight_dtype = 0;
  desc.with_d_loss = 1;
  refused(desc, LIGERDSL_INVALID_ARGUMENT, "`with_d_loss`: expected 0 without d_x or d_weight");
  desc.with_d_loss = 0;
  desc.without_loss = 1;
  refused(desc, LIGERDSL_INVALID_ARGUMENT, "`without_loss`: expected 0 without a gradient");
  pupil.target_x = Tensor(bf16, {12}).view({4, 8}, {1, 1});
  EXPECT_EQ(pupil.execute(), LIGERDSL_INVALID_SHAPE) << "rows that overlap";
  EXPECT_NE(std::string(ligerdsl_last_error()).find("`target_x`"), std::string::npos)
      << ligerdsl_last_error();
}

}  // namespace
}  // namespace ligerdsl::test::fused_linear_jsd_test
