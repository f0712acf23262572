// Tests fused_linear_cross_entropy_backward through the C ABI, from the lse of a forward call.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/fused_linear/library/linear_head.h"

namespace ligerdsl::test::fused_linear_cross_entropy_backward_test {
namespace {

using BackwardDesc = ligerdsl_fused_linear_cross_entropy_backward_desc_t;
using BackwardArgs = ligerdsl_fused_linear_cross_entropy_backward_args_t;

// Runs a forward call that computes only lse, and then the backward call.
struct Head : LinearHead {
  Gradients wanted;

  Head(int64_t rows, int64_t cols, int64_t classes, DType of = f32, CrossEntropyCase with = {},
       Gradients gradients = {}, int64_t gap = 0)
      : LinearHead(rows, cols, classes, of, std::move(with), gradients, gap), wanted(gradients) {
    Values g{0.75};
    if (c.reduction == Reduce::none) g = Random(31).normals(n);
    for (double& value : g) value = exact(value);
    upstream(g);
  }

  void forward() {
    const LinearHead::Desc given = desc;
    desc.with_d_x = desc.d_weight_dtype = desc.d_bias_dtype = desc.in_place = desc.accumulate = 0;
    desc.with_d_entropy = desc.with_d_loss = desc.use_token_scaling = 0;
    desc.with_entropy = given.with_d_entropy;
    desc.max_workspace_bytes = 0;
    desc.with_lse = 1;
    LinearHead::run();
    desc = given;
  }

  BackwardDesc backward_desc() const {
    BackwardDesc d = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_BACKWARD_DESC_INIT;
    d.n_classes = desc.n_classes;
    d.n_cols = desc.n_cols;
    d.dtype = desc.dtype;
    d.label_dtype = desc.label_dtype;
    d.products = desc.products;
    d.bias_dtype = desc.bias_dtype;
    d.weight_dtype = desc.weight_dtype;
    d.class_weight_dtype = desc.class_weight_dtype;
    d.d_loss_dtype = desc.d_loss_dtype;
    d.d_weight_dtype = desc.d_weight_dtype;
    d.d_bias_dtype = desc.d_bias_dtype;
    d.with_d_x = desc.with_d_x;
    d.with_class_weight = desc.with_class_weight;
    d.with_d_entropy = desc.with_d_entropy;
    d.accumulate = desc.accumulate;
    d.in_place = desc.in_place;
    d.ignore_index = desc.ignore_index;
    d.reduction = desc.reduction;
    d.label_smoothing = desc.label_smoothing;
    d.lse_square_scale = desc.lse_square_scale;
    d.softcap = desc.softcap;
    d.temperature = desc.temperature;
    d.use_token_scaling = desc.use_token_scaling;
    d.chunking = desc.chunking;
    d.chunk_rows = desc.chunk_rows;
    d.max_workspace_bytes = desc.max_workspace_bytes;
    return d;
  }

  BackwardArgs backward_arguments(Transfer& transfer) {
    label_tensor = Tensor(i64, {n}).fill(labels);
    BackwardArgs args = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_BACKWARD_ARGS_INIT;
    args.x = transfer(x);
    args.weight = transfer(weight);
    if (desc.bias_dtype) args.bias = transfer(bias);
    args.labels = transfer(label_tensor);
    if (desc.with_class_weight) args.class_weight = transfer(class_weight);
    args.lse = transfer(lse);
    args.d_loss = transfer(d_loss);
    if (desc.with_d_x) args.d_x = transfer(d_x);
    if (desc.d_weight_dtype) args.d_weight = transfer(d_weight);
    if (desc.d_bias_dtype) args.d_bias = transfer(d_bias);
    if (desc.with_d_entropy) args.entropy = transfer(entropy);
    if (desc.with_d_entropy) args.d_entropy = transfer(d_entropy);
    return args;
  }

  ligerdsl_status_t execute_backward() {
    const BackwardDesc d = backward_desc();
    ligerdsl_plan_t plan = nullptr;
    require(ligerdsl_fused_linear_cross_entropy_backward_plan(context(), &d, &plan));
    Transfer transfer;
    const BackwardArgs args = backward_arguments(transfer);
    const size_t answer = ligerdsl_plan_workspace_bytes_for(plan, n),
                 bytes = answer == SIZE_MAX ? 0 : answer;
    const ligerdsl_status_t status = ligerdsl_fused_linear_cross_entropy_backward_execute(
        plan, &args, transfer.memory(bytes), bytes, nullptr);
    transfer.back();
    ligerdsl_plan_destroy(plan);
    return status;
  }
  void run() {
    forward();
    require(execute_backward());
  }

  size_t workspace_bytes(int64_t rows) const {
    const BackwardDesc d = backward_desc();
    ligerdsl_plan_t plan = nullptr;
    require(ligerdsl_fused_linear_cross_entropy_backward_plan(context(), &d, &plan));
    const size_t bytes = ligerdsl_plan_workspace_bytes_for(plan, rows);
    ligerdsl_plan_destroy(plan);
    return bytes;
  }
  // Limits the workspace to the bytes for chunks of one row, plus `more`.
  void limit_workspace(int64_t more) {
    desc.chunk_rows = 1;
    desc.max_workspace_bytes = static_cast<int64_t>(workspace_bytes(n)) + more;
    desc.chunk_rows = 0;
  }

  Values expected() const {
    const Values z = logits();
    Values d = cross_entropy_reference(z, labels, c).d_logits;
    if (!desc.use_token_scaling) return d;
    CrossEntropyCase losses = c;
    losses.d_entropy.clear();
    const CrossEntropyResult of_losses = cross_entropy_reference(z, labels, losses);
    for (int64_t i = 0; i < n; ++i) {
      if (labels[i] == c.ignore_index) continue;
      const double capped = z[i * v + labels[i]], t = c.temperature > 0 ? c.temperature : 1;
      const double label = (c.softcap > 0 ? c.softcap * std::tanh(capped / c.softcap) : capped) / t;
      for (int64_t j = i * v; j < (i + 1) * v; ++j)
        d[j] += (std::exp(label - of_losses.lse[i]) - 1) * of_losses.d_logits[j];
    }
    return d;
  }

  void check() {
    SCOPED_TRACE(std::string(name(type)) + " n=" + std::to_string(n) + " h=" + std::to_string(h) +
                 " v=" + std::to_string(v) + " chunk " + std::to_string(desc.chunk_rows) +
                 " limit " + std::to_string(desc.max_workspace_bytes) + " reduction " +
                 std::to_string(static_cast<int>(c.reduction)) + " smoothing " +
                 std::to_string(c.smoothing) + " z " + std::to_string(c.lse_square) + " cap " +
                 std::to_string(c.softcap));
    const Tensor x_before = x.clone();
    run();
    EXPECT_TRUE(x.same_bits(x_before));
    check_gradients(expected());
    for (const Tensor& t : {d_x, d_weight, d_bias}) EXPECT_TRUE(t.untouched_outside());
  }
};

class FusedLinearCrossEntropyBackward : public WithProducts {};
INSTANTIATE_TEST_SUITE_P(Products, FusedLinearCrossEntropyBackward, makers_of_products(),
                         products_name);

constexpr Reduce kReductions[] = {Reduce::none, Reduce::mean, Reduce::sum};

std::vector<CrossEntropyCase> cases(int64_t n, int64_t v) {
  return {{},
          {.smoothing = exact(0.1)},
          {.softcap = 3},
          {.lse_square = exact(1e-3)},
          {.weight = class_weights(v)},
          {.ignore_index = 2},
          {.temperature = 1.5, .d_entropy = Values(n, 0.25)},
          {.ignore_index = 0,
           .smoothing = exact(0.2),
           .lse_square = exact(1e-3),
           .softcap = 4,
           .weight = class_weights(v),
           .temperature = 0.75,
           .d_entropy = Values(n, -0.5)}};
}

TEST_P(FusedLinearCrossEntropyBackward, ShapesAndTypes) {
  LIGERDSL_SKIP_LONG_EMULATION();
  const int64_t shapes[][3] = {{4, 8, 8}, {63, 41, 41},   {188, 31, 123},
                               {1, 1, 1}, {12, 64, 1000}, {3, 24, 20000}};
  for (const auto& [n, h, v] : shapes) {
    for (DType type : kFloats)
      Head(n, h, v, type, {.reduction = Reduce::none}, {}, n % 2 * 3).check();
  }
}

TEST_P(FusedLinearCrossEntropyBackward, Options) {
  LIGERDSL_SKIP_LONG_EMULATION();
  const int64_t n = 11, v = 67;
  for (Reduce reduction : kReductions) {
    for (CrossEntropyCase c : cases(n, v)) {
      c.reduction = reduction;
      for (int64_t chunk : {0, 4}) {
        for (bool scaled : {false, true}) {
          Head head(n, 23, v, f32, c);
          head.desc.chunk_rows = chunk;
          head.desc.use_token_scaling = scaled;
          head.check();
        }
      }
    }
  }
}

// Limits leave room for few rows, so d_weight is vocabulary-blocked.
TEST_P(FusedLinearCrossEntropyBackward, ByVocabulary) {
  LIGERDSL_SKIP_LONG_EMULATION();
  const int64_t n = 90, v = 405;
  for (Reduce reduction : kReductions) {
    for (CrossEntropyCase c : cases(n, v)) {
      c.reduction = reduction;
      for (DType type : {f32, bf16}) {
        for (const Gradients wanted : {Gradients{}, Gradients{false, true, false}}) {
          Head head(n, 24, v, type, c, wanted);
          if (type == bf16) head.set_d_weight_type(bf16);
          head.desc.use_token_scaling = c.smoothing > 0;
          head.limit_workspace(c.softcap > 0 ? 40000 : 6000);
          head.check();
        }
      }
    }
  }
}

TEST_P(FusedLinearCrossEntropyBackward, EveryChunkSizeGivesTheSame) {
  for (int64_t chunk : {1, 5, 36, 37, 100}) {
    Head head(37, 19, 75, bf16,
              {.smoothing = exact(0.1), .lse_square = exact(1e-3), .weight = class_weights(75)});
    head.desc.chunk_rows = chunk;
    head.check();
  }
  Head published(37, 19, 75, bf16);
  published.desc.chunking = LIGERDSL_CHUNKING_PUBLISHED;
  published.check();
}

TEST_P(FusedLinearCrossEntropyBackward, GradientsAreIndependent) {
  for (const Gradients wanted : {Gradients{true, false, false}, Gradients{false, true, false},
                                 Gradients{false, false, true}}) {
    for (DType type : {f32, bf16}) {
      Head head(10, 15, 31, type, {}, wanted);
      head.desc.chunk_rows = 4;
      head.check();
      EXPECT_EQ(std::isnan(head.d_x.get(0)), !wanted.x);
      EXPECT_EQ(std::isnan(head.d_weight.get(0)), !wanted.weight);
      EXPECT_EQ(std::isnan(head.d_bias.get(0)), !wanted.bias);
    }
  }
  Head without_bias(9, 17, 33, bf16, {}, {.bias = false});
  without_bias.desc.bias_dtype = 0;
  without_bias.check();
}

TEST_P(FusedLinearCrossEntropyBackward, MatchesForwardGradients) {
  LIGERDSL_SKIP_LONG_EMULATION();
  for (DType type : kFloats) {
    LinearHead forward(29, 40, 500, type, {.reduction = Reduce::none});
    Head backward(29, 40, 500, type, {.reduction = Reduce::none});
    forward.upstream(backward.c.upstream);
    forward.run();
    backward.run();
    const double gate = type == f32 ? 1e-5 : backward.gate();
    EXPECT_TRUE(close_normwise(backward.d_x.values(), forward.d_x.values(), gate));
    EXPECT_TRUE(close_normwise(backward.d_weight.values(), forward.d_weight.values(), gate));
  }
}

TEST_P(FusedLinearCrossEntropyBackward, SmallTensorsInTheTypeOfX) {
  for (DType type : {f16, bf16}) {
    for (Reduce reduction : {Reduce::mean, Reduce::none}) {
      Head head(13, 12, 40, type,
                {.smoothing = exact(0.1), .weight = class_weights(40), .reduction = reduction});
      head.keep_small_tensors_in_type();
      head.set_d_weight_type(type);
      head.bias = random_vector(type, 40, 23);
      head.desc.bias_dtype = head.desc.d_bias_dtype = code_of(type);
      head.d_bias = Tensor(type, {40});
      head.desc.chunk_rows = 5;
      head.check();
    }
  }
}

TEST_P(FusedLinearCrossEntropyBackward, WeightInF32) {
  for (DType type : {f16, bf16}) {
    for (int64_t chunk : {0, 5}) {
      Head head(13, 24, 75, type, {.smoothing = exact(0.1)});
      head.keep_weight_in_f32();
      head.desc.chunk_rows = chunk;
      head.check();
    }
  }
}

TEST_P(FusedLinearCrossEntropyBackward, Accumulate) {
  for (int64_t limit : {0, 20000}) {
    Head head(70, 14, 300, bf16, {.reduction = Reduce::none});
    head.desc.accumulate = 1;
    head.d_weight_before = Random(41).normals(300 * 14);
    head.d_bias_before = Random(42).normals(300);
    head.d_weight.fill(head.d_weight_before);
    head.d_bias.fill(head.d_bias_before);
    if (limit > 0) head.limit_workspace(limit);
    head.check();
  }
}

TEST_P(FusedLinearCrossEntropyBackward, InPlace) {
  for (DType type : {f32, bf16}) {
    Head separate(11, 14, 30, type), over(11, 14, 30, type);
    for (Head* head : {&separate, &over}) head->desc.chunk_rows = 4;
    separate.run();
    over.desc.in_place = 1;
    over.d_x = over.x;
    over.run();
    EXPECT_TRUE(over.x.same_bits(separate.d_x));
    EXPECT_TRUE(over.d_weight.same_bits(separate.d_weight));
  }
}

// A repeated backward call gives the same bits.
TEST_P(FusedLinearCrossEntropyBackward, TwoRunsAreBitIdentical) {
  for (DType type : kFloats) {
    Head head(29, 40, 500, type);
    head.run();
    const Tensor d_x = head.d_x.clone(), d_weight = head.d_weight.clone(),
                 d_bias = head.d_bias.clone();
    require(head.execute_backward());
    EXPECT_TRUE(d_x.same_bits(head.d_x) && d_weight.same_bits(head.d_weight) &&
                d_bias.same_bits(head.d_bias));
  }
}

TEST_P(FusedLinearCrossEntropyBackward, AllIgnored) {
  for (Reduce reduction : kReductions) {
    Head head(7, 12, 20, f32, {.lse_square = exact(1e-3), .reduction = reduction});
    for (int64_t& label : head.labels) label = -100;
    head.run();
    for (const Tensor& t : {head.d_x, head.d_weight, head.d_bias}) {
      for (double value : t.values()) EXPECT_EQ(value, 0.0);
    }
  }
}

TEST_P(FusedLinearCrossEntropyBackward, NoRows) {
  for (bool accumulate : {false, true}) {
    Head head(0, 12, 20);
    head.desc.accumulate = accumulate;
    head.d_weight.fill(Values(20 * 12, 5.0));
    head.d_bias.fill(Values(20, 5.0));
    head.run();
    for (const Tensor& t : {head.d_weight, head.d_bias}) {
      for (double value : t.values()) EXPECT_EQ(value, accumulate ? 5.0 : 0.0);
    }
  }
}

// A class with a logit of -inf has zero probability and zero gradient.
TEST_P(FusedLinearCrossEntropyBackward, LogitsOfMinusInfinity) {
  Head head(6, 8, 20, f32, {.reduction = Reduce::none});
  head.labels = {0, 1, 2, 3, 4, 5};
  head.bias.set(11, -std::numeric_limits<double>::infinity());
  head.check();
  EXPECT_EQ(head.d_bias.get(11), 0.0);
}

// Recomputed logits are not rounded, so they match the lse of unrounded logits.
TEST_P(FusedLinearCrossEntropyBackward, ConfidentRows) {
  if (on_gpu() && GetParam() == Products::library) GTEST_SKIP() << "matmuls store rounded logits";
  for (const double scale : {1e2, 1e3, 1e4}) {
    for (const bool by_vocabulary : {false, true}) {
      Head head(90, 24, 405, bf16, {.reduction = Reduce::none},
                {.x = !by_vocabulary, .bias = !by_vocabulary});
      Values x = head.x.values();
      for (double& value : x) value *= scale;
      head.x.fill(x);
      const Values z = head.logits();
      for (int64_t i = 0; i < head.n; i += 2)  // the label has the largest logit
        head.labels[i] = std::max_element(z.begin() + i * head.v, z.begin() + (i + 1) * head.v) -
                         (z.begin() + i * head.v);
      head.desc.with_accuracy = head.desc.with_predictions = 0;
      if (by_vocabulary) head.limit_workspace(6000);
      head.check();
    }
  }
}

// lse is stored in f32, which limits the accuracy of 1 - p for the label.
TEST_P(FusedLinearCrossEntropyBackward, NearlyCertainRows) {
  Head head(8, 16, 50, f32, {.reduction = Reduce::sum});
  head.upstream({1});
  head.labels.assign(8, 7);
  head.bias.set(7, 10.0);
  head.run();
  const Values d = head.expected();
  double least = 1;  // smallest 1 - p of a label
  for (int64_t i = 0; i < head.n; ++i) least = std::min(least, -d[i * head.v + 7]);
  ASSERT_LT(least, 5e-3);
  const double lse = 12, gate = lse * std::ldexp(1.0, -23) / least;
  EXPECT_TRUE(close_normwise(head.d_x.values(),
                             product_gradients(d, head.x, head.weight, 8, 16, 50).x, gate));
}

TEST_P(FusedLinearCrossEntropyBackward, LabelsOutOfRangeAreReportedByRowOfTheBatch) {
  LIGERDSL_SKIP_TRAPS_OF_EMULATOR();
  for (const Gradients wanted : {Gradients{}, Gradients{false, true, false}}) {
    Head head(90, 12, 400, f32, {.reduction = Reduce::none}, wanted);
    head.forward();
    if (wanted.x)
      head.desc.chunk_rows = 2;
    else
      head.limit_workspace(20000);  // vocabulary-blocked
    head.labels[77] = 400;
    require(head.execute_backward());
    EXPECT_EQ(ligerdsl_context_check(context(), nullptr), LIGERDSL_INVALID_LABEL);
    const std::string error = ligerdsl_last_error();
    EXPECT_NE(error.find("row 77"), std::string::npos) << error;
    EXPECT_NE(error.find("fused_linear_cross_entropy_backward"), std::string::npos) << error;
    if (!wanted.x) continue;
    EXPECT_TRUE(std::isnan(head.d_x.get(77 * 12)));
    EXPECT_FALSE(std::isnan(head.d_x.get(76 * 12)));
  }
}

TEST_P(FusedLinearCrossEntropyBackward, WorkspaceStaysBelowItsLimit) {
  LIGERDSL_SKIP_LONG_EMULATION();
  Head head(300, 16, 400);
  const size_t whole = head.workspace_bytes(300);
  head.desc.chunk_rows = 1;
  const size_t least = head.workspace_bytes(300);
  head.desc.chunk_rows = 0;
  for (size_t limit : {least + 1024, least + 100000, (least + whole) / 2}) {
    head.desc.max_workspace_bytes = static_cast<int64_t>(limit);
    EXPECT_LE(head.workspace_bytes(300), limit);
    head.check();
  }
  head.desc.max_workspace_bytes = 1000;
  EXPECT_EQ(head.workspace_bytes(300), SIZE_MAX);
  EXPECT_EQ(head.execute_backward(), LIGERDSL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(ligerdsl_last_error()).find("max_workspace_bytes"), std::string::npos)
      << ligerdsl_last_error();
}

TEST_P(FusedLinearCrossEntropyBackward, OneCall) {
  Head head(12, 10, 50, f32, {.reduction = Reduce::none});
  head.forward();
  BackwardDesc given = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_BACKWARD_DESC_INIT;
  given.reduction = LIGERDSL_REDUCTION_NONE;
  Transfer transfer;
  const BackwardArgs args = head.backward_arguments(transfer);
  require(ligerdsl_fused_linear_cross_entropy_backward(context(), &given, &args, nullptr));
  transfer.back();
  head.check_gradients(head.expected());
}

TEST_P(FusedLinearCrossEntropyBackward, Misuse) {
  const auto plan_error = [](const BackwardDesc& desc, ligerdsl_status_t status) {
    ligerdsl_plan_t plan = nullptr;
    EXPECT_EQ(ligerdsl_fused_linear_cross_entropy_backward_plan(context(), &desc, &plan), status);
    ligerdsl_plan_destroy(plan);
    return std::string(ligerdsl_last_error());
  };
  Head head(4, 8, 8, bf16);
  head.forward();
  BackwardDesc desc = head.backward_desc();
  desc.with_d_x = desc.d_weight_dtype = desc.d_bias_dtype = 0;
  std::string error = plan_error(desc, LIGERDSL_INVALID_ARGUMENT);
  EXPECT_NE(error.find("expected at least one that is not 0"), std::string::npos) << error;
  desc = head.backward_desc();
  desc.bias_dtype = 0;
  error = plan_error(desc, LIGERDSL_INVALID_ARGUMENT);
  EXPECT_NE(error.find("`d_bias_dtype`"), std::string::npos) << error;
  desc = head.backward_desc();
  desc.d_weight_dtype = LIGERDSL_BF16;
  desc.accumulate = 1;
  plan_error(desc, LIGERDSL_INVALID_DTYPE);
  desc = head.backward_desc();
  desc.weight_dtype = LIGERDSL_F16;
  plan_error(desc, LIGERDSL_INVALID_DTYPE);
  const Tensor d_loss = head.d_loss;
  head.d_loss = Tensor(f32, {4}).fill(Values(4, 1.0));
  EXPECT_EQ(head.execute_backward(), LIGERDSL_INVALID_SHAPE) << "one per row for a mean";
  EXPECT_NE(std::string(ligerdsl_last_error()).find("`d_loss`: expected 1 element, got 4"),
            std::string::npos)
      << ligerdsl_last_error();
  head.d_loss = d_loss;
  head.lse = Tensor(f32, {3});
  EXPECT_EQ(head.execute_backward(), LIGERDSL_INVALID_SHAPE);
  EXPECT_NE(std::string(ligerdsl_last_error()).find("`lse`"), std::string::npos)
      << ligerdsl_last_error();
  head.lse = Tensor(f32, {4});
  head.x = Tensor(bf16, {12}).view({4, 8}, {1, 1});
  EXPECT_EQ(head.execute_backward(), LIGERDSL_INVALID_SHAPE) << "rows that overlap";
  EXPECT_NE(std::string(ligerdsl_last_error()).find("`x`"), std::string::npos)
      << ligerdsl_last_error();
}

}  // namespace
}  // namespace ligerdsl::test::fused_linear_cross_entropy_backward_test
