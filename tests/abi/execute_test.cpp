// Calls that run: plan and execute, the one-call form, in place, workspaces, no work, labels, an author's kernel.
#include <ligerdsl/dsl.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <thread>

#include "support.h"
#include "tests/support/half.h"

namespace ligerdsl::test {
namespace {

class Execute : public testing::Test {
 protected:
  Context context_ = Context::cpu(2);
};

VectorAddArgs add_args(Owned& a, Owned& b, Owned& out) {
  VectorAddArgs args = vector_add_args();
  args.a = a;
  args.b = b;
  args.out = out;
  return args;
}

TEST_F(Execute, VectorAdd) {
  Owned a(LIGERDSL_F32, {1001}), b(LIGERDSL_F32, {1001}), out(LIGERDSL_F32, {1001});
  std::iota(a.floats(), a.floats() + 1001, 0.0f);
  std::fill_n(b.floats(), 1001, 0.5f);
  out.floats()[1001] = 77;
  vector_add(context_, vector_add_desc(), add_args(a, b, out));
  for (int i = 0; i < 1001; ++i) ASSERT_EQ(out.floats()[i], static_cast<float>(i) + 0.5f) << i;
  EXPECT_EQ(out.floats()[1001], 77) << "written past the end";
}

TEST_F(Execute, OnePlanServesEveryLength) {
  VectorAddDesc desc = vector_add_desc();
  desc.dtype = LIGERDSL_F32;
  const VectorAddPlan plan(context_, desc);
  for (const int64_t n : {1, 7, 1024, 4097}) {
    Owned a(LIGERDSL_F32, {n}), b(LIGERDSL_F32, {n}), out(LIGERDSL_F32, {n});
    std::fill_n(a.floats(), n, 2.0f);
    std::fill_n(b.floats(), n, 3.0f);
    plan(add_args(a, b, out));
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out.floats()[i], 5.0f) << i << " of " << n;
  }
}

TEST_F(Execute, InPlaceMustBeDescribed) {
  Owned a(LIGERDSL_F32, {64}), b(LIGERDSL_F32, {64});
  VectorAddDesc desc = vector_add_desc();
  desc.dtype = LIGERDSL_F32;
  const VectorAddPlan apart(context_, desc);
  VectorAddArgs args = add_args(a, b, a);
  expect_failure(ligerdsl_vector_add_execute(apart.get(), &args, nullptr, 0, nullptr), LIGERDSL_INVALID_ALIAS,
                 {"`out`", "in_place"});
  std::fill_n(a.floats(), 64, 1.0f);
  std::fill_n(b.floats(), 64, 2.0f);
  desc.in_place = 1;
  VectorAddPlan(context_, desc)(args);
  vector_add(context_, vector_add_desc(), args);  // the one-call form sees the alias itself
  for (int i = 0; i < 64; ++i) ASSERT_EQ(a.floats()[i], 5.0f);
}

TEST_F(Execute, NoWork) {
  const Tensor none(nullptr, context_.device(), LIGERDSL_F32, {0});
  VectorAddArgs args = vector_add_args();
  args.a = args.b = args.out = none;
  EXPECT_EQ(VectorAddPlan(context_,
                          [] {
                            VectorAddDesc desc = vector_add_desc();
                            desc.dtype = LIGERDSL_F32;
                            return desc;
                          }())
                .workspace_bytes(0),
            0u);
  vector_add(context_, vector_add_desc(), args);
}

TEST_F(Execute, DeadAndForeignPlans) {
  VectorAddDesc desc = vector_add_desc();
  desc.dtype = LIGERDSL_F32;
  ligerdsl_plan_t plan = nullptr;
  check(ligerdsl_vector_add_plan(context_.get(), &desc, &plan));
  const SoftmaxForwardArgs other = softmax_forward_args();
  expect_failure(ligerdsl_softmax_forward_execute(plan, &other, nullptr, 0, nullptr), LIGERDSL_INVALID_ARGUMENT,
                 {"made for vector_add", "softmax_forward"});
  ligerdsl_plan_destroy(plan);
  const VectorAddArgs args = vector_add_args();
  EXPECT_EQ(ligerdsl_vector_add_execute(plan, &args, nullptr, 0, nullptr), LIGERDSL_DEAD_HANDLE);
}

TEST_F(Execute, PlanOutlivesItsContext) {
  VectorAddDesc desc = vector_add_desc();
  desc.dtype = LIGERDSL_F32;
  Context context = Context::cpu(1);
  const VectorAddPlan plan(context, desc);
  context = Context::cpu(1);  // destroys the plan's
  Owned a(LIGERDSL_F32, {8}), b(LIGERDSL_F32, {8}), out(LIGERDSL_F32, {8});
  std::fill_n(a.floats(), 8, 4.0f);
  plan(add_args(a, b, out));
  EXPECT_EQ(out.floats()[7], 4.0f);
}

// d_weight of three rows, by hand.
TEST_F(Execute, WorkspaceIsCheckedAndUsed) {
  constexpr int64_t kRows = 3, kCols = 4;
  Owned x(LIGERDSL_F32, {kRows, kCols}), d_y(LIGERDSL_F32, {kRows, kCols}), d_x(LIGERDSL_F32, {kRows, kCols});
  Owned weight(LIGERDSL_F32, {kCols}), rstd(LIGERDSL_F32, {kRows}), d_weight(LIGERDSL_F32, {kCols});
  for (int i = 0; i < kRows * kCols; ++i) x.floats()[i] = static_cast<float>(i), d_y.floats()[i] = 1;
  std::fill_n(weight.floats(), kCols, 1.0f);
  std::fill_n(rstd.floats(), kRows, 1.0f);
  RmsNormBackwardDesc desc = rms_norm_backward_desc();
  desc.n_cols = kCols;
  desc.dtype = desc.weight_dtype = desc.d_weight_dtype = LIGERDSL_F32;
  RmsNormBackwardArgs args = rms_norm_backward_args();
  args.d_y = d_y;
  args.x = x;
  args.weight = weight;
  args.rstd = rstd;
  args.d_x = d_x;
  args.d_weight = d_weight;
  const RmsNormBackwardPlan plan(context_, desc);
  const size_t bytes = plan.workspace_bytes(kRows);
  ASSERT_GT(bytes, 0u);
  EXPECT_LE(bytes, plan.workspace_bytes(1000));
  const Buffer workspace(context_, bytes);
  expect_failure(ligerdsl_rms_norm_backward_execute(plan.get(), &args, workspace.data(), bytes - 1, nullptr),
                 LIGERDSL_WORKSPACE_TOO_SMALL, {"expected ", "got "});
  expect_failure(ligerdsl_rms_norm_backward_execute(plan.get(), &args, nullptr, bytes, nullptr),
                 LIGERDSL_INVALID_NULL_POINTER, {"`workspace`"});
  const Tensor inside(static_cast<float*>(workspace.data()), context_.device(), LIGERDSL_F32, {kRows, kCols});
  args.d_x = inside;
  expect_failure(ligerdsl_rms_norm_backward_execute(plan.get(), &args, workspace.data(), bytes, nullptr),
                 LIGERDSL_INVALID_ALIAS, {"`workspace`", "`d_x`"});
  args.d_x = d_x;
  plan(args, workspace.data(), bytes);
  for (int j = 0; j < kCols; ++j) EXPECT_EQ(d_weight.floats()[j], static_cast<float>(j + (j + 4) + (j + 8)));
  std::fill_n(d_weight.floats(), kCols, -1.0f);
  rms_norm_backward(context_, rms_norm_backward_desc(), args);  // with scratch memory of the context
  for (int j = 0; j < kCols; ++j) EXPECT_EQ(d_weight.floats()[j], static_cast<float>(j + (j + 4) + (j + 8)));
}

TEST_F(Execute, LabelOutOfBounds) {
  Owned logits(LIGERDSL_F32, {4, 5}), labels(LIGERDSL_I64, {4}), loss(LIGERDSL_F32, {4});
  const int64_t values[] = {0, 5, -100, int64_t{1} << 40};
  std::copy(std::begin(values), std::end(values), labels.storage.begin());
  CrossEntropyDesc desc = cross_entropy_desc();
  desc.reduction = LIGERDSL_REDUCTION_NONE;
  CrossEntropyArgs args = cross_entropy_args();
  args.logits = logits;
  args.labels = labels;
  args.loss = loss;
  cross_entropy(context_, desc, args);
  EXPECT_NEAR(loss.floats()[0], std::log(5.0), 1e-6);
  EXPECT_TRUE(std::isnan(loss.floats()[1]));
  EXPECT_EQ(loss.floats()[2], 0);
  EXPECT_TRUE(std::isnan(loss.floats()[3]));
  expect_failure(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_INVALID_LABEL,
                 {"cross_entropy", "out of bounds", "row 1"});
  EXPECT_EQ(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_SUCCESS) << "the report was not cleared";
}

// A column of a table, and one of two dimensions that are evenly strided.
TEST_F(Execute, LabelsOfAnyStride) {
  Owned logits(LIGERDSL_F32, {4, 5}), labels(LIGERDSL_I64, {2, 2}, {6, 3}), loss(LIGERDSL_F32, {4}),
      counts(LIGERDSL_F32, {4});
  for (int i = 0; i < 20; ++i) logits.floats()[i] = static_cast<float>(i * i % 7);
  for (size_t i = 0; i < 4; ++i) labels.storage[3 * i] = i == 2 ? -100 : static_cast<int64_t>(i);
  CrossEntropyDesc desc = cross_entropy_desc();
  desc.reduction = LIGERDSL_REDUCTION_NONE;
  CrossEntropyArgs args = cross_entropy_args();
  args.logits = logits;
  args.labels = labels;
  args.loss = loss;
  cross_entropy(context_, desc, args);
  for (int row = 0; row < 4; ++row) {
    double sum = 0;
    for (int j = 0; j < 5; ++j) sum += std::exp(logits.floats()[row * 5 + j]);
    const double expected = row == 2 ? 0 : std::log(sum) - logits.floats()[row * 5 + row];
    EXPECT_NEAR(loss.floats()[row], expected, 1e-5) << row;
  }
  TargetCountsArgs of = target_counts_args();
  of.labels = labels;
  of.counts = counts;
  target_counts(context_, target_counts_desc(), of);
  EXPECT_EQ(counts.floats()[3], 3);
  Owned apart(LIGERDSL_F32, {4}, {2}), uneven(LIGERDSL_I64, {2, 2}, {5, 2});
  args.loss = apart;
  expect_failure(ligerdsl_cross_entropy(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE,
                 {"`loss`", "needs a stride of 1"});
  args.loss = loss;
  args.labels = uneven;
  expect_failure(ligerdsl_cross_entropy(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE,
                 {"`labels`", "not evenly strided"});
}

TEST_F(Execute, PollNamesTheOperation) {
  EXPECT_FALSE(context_.poll_labels());
  Owned weight(LIGERDSL_F32, {4, 2}), ids(LIGERDSL_I64, {3}), out(LIGERDSL_F32, {3, 2});
  ids.storage[2] = 4;
  EmbeddingForwardArgs embedding = embedding_forward_args();
  embedding.weight = weight;
  embedding.indices = ids;
  embedding.out = out;
  embedding_forward(context_, embedding_forward_desc(), embedding);
  Owned logits(LIGERDSL_F32, {4, 5}), labels(LIGERDSL_I64, {4}), loss(LIGERDSL_F32, {1});
  labels.storage[1] = -1;
  CrossEntropyArgs entropy = cross_entropy_args();
  entropy.logits = logits;
  entropy.labels = labels;
  entropy.loss = loss;
  cross_entropy(context_, cross_entropy_desc(), entropy);
  std::map<std::string, int64_t> found;
  while (const auto fault = context_.poll_labels()) ASSERT_TRUE(found.emplace(fault->operation, fault->row).second);
  EXPECT_EQ(found, (std::map<std::string, int64_t>{{"cross_entropy", 1}, {"embedding_forward", 2}}));
  // What a later version of the struct has is zeroed, and a smaller one refused.
  struct {
    ligerdsl_fault_t known;
    int64_t later = -1;
  } fault;
  EXPECT_EQ(ligerdsl_context_poll(context_.get(), &fault.known, sizeof fault), LIGERDSL_SUCCESS);
  EXPECT_TRUE(fault.known.operation == nullptr && fault.later == 0);
  expect_failure(ligerdsl_context_poll(context_.get(), &fault.known, sizeof fault.known - 1), LIGERDSL_INVALID_ARGUMENT,
                 {"fault_bytes"});
  expect_failure(ligerdsl_context_poll(context_.get(), nullptr, 0), LIGERDSL_INVALID_NULL_POINTER, {"fault"});
}

// A loss in bf16 is the f32 loss, rounded; class weights in bf16 that are exact weigh the same.
TEST_F(Execute, LossAndClassWeightsInTheTypeOfTheLogits) {
  Owned logits(LIGERDSL_BF16, {4, 5}), labels(LIGERDSL_I64, {4});
  for (int i = 0; i < 20; ++i) logits.halves()[i] = to_bf16(0.25f * static_cast<float>(i % 7));
  for (int i = 0; i < 4; ++i) labels.storage[static_cast<size_t>(i)] = i;
  Owned weight(LIGERDSL_F32, {5}), weight_bf16(LIGERDSL_BF16, {5});
  for (int i = 0; i < 5; ++i) {
    weight.floats()[i] = 0.5f * static_cast<float>(i + 1);
    weight_bf16.halves()[i] = to_bf16(weight.floats()[i]);
  }
  for (const int32_t reduction : {LIGERDSL_REDUCTION_NONE, LIGERDSL_REDUCTION_MEAN, LIGERDSL_REDUCTION_SUM}) {
    const int64_t n = reduction == LIGERDSL_REDUCTION_NONE ? 4 : 1;
    Owned loss(LIGERDSL_F32, {n}), z_loss(LIGERDSL_F32, {n}), loss_bf16(LIGERDSL_BF16, {n}), z_bf16(LIGERDSL_BF16, {n});
    CrossEntropyDesc desc = cross_entropy_desc();
    desc.reduction = reduction;
    desc.lse_square_scale = 0.1f;
    CrossEntropyArgs args = cross_entropy_args();
    args.logits = logits;
    args.labels = labels;
    args.class_weight = weight;
    args.loss = loss;
    args.z_loss = z_loss;
    cross_entropy(context_, desc, args);
    args.class_weight = weight_bf16;
    args.loss = loss_bf16;
    args.z_loss = z_bf16;
    cross_entropy(context_, desc, args);
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_GT(loss.floats()[i], 0);
      EXPECT_EQ(loss_bf16.halves()[i], to_bf16(loss.floats()[i])) << "reduction " << reduction;
      EXPECT_EQ(z_bf16.halves()[i], to_bf16(z_loss.floats()[i])) << "reduction " << reduction;
    }
    args.z_loss = z_loss;
    expect_failure(ligerdsl_cross_entropy(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_DTYPE,
                   {"z_loss", "expected bf16, got f32"});
  }
}

TEST_F(Execute, ReducedLossHasOneElement) {
  Owned logits(LIGERDSL_F32, {4, 5}), labels(LIGERDSL_I64, {4}), loss(LIGERDSL_F32, {4});
  const CrossEntropyDesc desc = cross_entropy_desc();
  CrossEntropyArgs args = cross_entropy_args();
  args.logits = logits;
  args.labels = labels;
  args.loss = loss;
  expect_failure(ligerdsl_cross_entropy(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE,
                 {"`loss`", "expected 1 elements", "got 4"});
}

// A backward that makes the gradient again has no place for the loss.
TEST_F(Execute, DivergencesRefuseALossOfAnotherShape) {
  Owned x(LIGERDSL_F32, {4, 8}), y(LIGERDSL_F32, {4, 8}), few(LIGERDSL_F32, {4});
  JsdDesc desc = jsd_desc();
  JsdArgs args = jsd_args();
  args.input = x;
  args.target = y;
  args.loss = few;
  expect_failure(ligerdsl_jsd(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE,
                 {"`loss`", "expected 1 elements", "got 4"});
  desc.reduction = LIGERDSL_REDUCTION_NONE;
  expect_failure(ligerdsl_jsd(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE,
                 {"`loss`", "expected 32 elements", "got 4"});
}

TEST_F(Execute, GradientsWithoutTheLoss) {
  Owned logits(LIGERDSL_F32, {4, 5}), labels(LIGERDSL_I64, {4}), loss(LIGERDSL_F32, {4});
  Owned with(LIGERDSL_F32, {4, 5}), without(LIGERDSL_F32, {4, 5});
  for (int i = 0; i < 20; ++i) logits.floats()[i] = std::sin(static_cast<float>(i));
  for (int i = 0; i < 4; ++i) reinterpret_cast<int64_t*>(labels.storage.data())[i] = i;
  for (const int32_t reduction : {LIGERDSL_REDUCTION_NONE, LIGERDSL_REDUCTION_MEAN, LIGERDSL_REDUCTION_SUM}) {
    CrossEntropyDesc desc = cross_entropy_desc();
    desc.reduction = reduction;
    CrossEntropyArgs args = cross_entropy_args();
    args.logits = logits;
    args.labels = labels;
    Owned one(LIGERDSL_F32, {1});
    args.loss = reduction == LIGERDSL_REDUCTION_NONE ? loss : one;
    args.d_logits = with;
    cross_entropy(context_, desc, args);
    args.loss = nullptr;
    args.d_logits = without;
    cross_entropy(context_, desc, args);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(without.floats()[i], with.floats()[i]) << "reduction " << reduction;
    args.d_logits = nullptr;
    expect_failure(ligerdsl_cross_entropy(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_ARGUMENT,
                   {"`without_loss`", "got 1", "pass loss"});
  }
}

// Two shards of a vocabulary of five equal logits, as columns of one tensor; the second label is ignored and the third
// one no class.
TEST_F(Execute, VocabParallelCrossEntropy) {
  Owned logits(LIGERDSL_F32, {3, 5}), labels(LIGERDSL_I64, {3}), partials(LIGERDSL_F32, {2, 3, 3}),
      loss(LIGERDSL_F32, {3}), d(LIGERDSL_F32, {3, 5});
  std::fill_n(logits.floats(), 15, 2.0f);
  labels.storage = {3, -100, 5};
  const int64_t first[] = {0, 2}, width[] = {2, 3};
  const auto columns = [&](Owned& of, int s) {
    return Tensor(of.floats() + first[s], {LIGERDSL_CPU, 0}, LIGERDSL_F32, {3, width[s]}, {5, 1});
  };
  for (int s = 0; s < 2; ++s) {
    VocabParallelCrossEntropyPartialsDesc desc = vocab_parallel_cross_entropy_partials_desc();
    desc.first_class = first[s];
    desc.total_classes = 5;
    VocabParallelCrossEntropyPartialsArgs args = vocab_parallel_cross_entropy_partials_args();
    const Tensor x = columns(logits, s), own(partials.floats() + 9 * s, {LIGERDSL_CPU, 0}, LIGERDSL_F32, {3, 3});
    args.logits = x;
    args.labels = labels;
    args.partials = own;
    vocab_parallel_cross_entropy_partials(context_, desc, args);
    expect_failure(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_INVALID_LABEL, {"out of bounds", "row 2"});
  }
  const float statistics[] = {2, 2, 0, 0, 0, 0};
  for (int i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(partials.floats()[i], statistics[i]) << i;
  EXPECT_FLOAT_EQ(partials.floats()[10], 2) << "the label's power is not among the others";
  EXPECT_FLOAT_EQ(partials.floats()[11], 2);
  for (int s = 0; s < 2; ++s) {
    VocabParallelCrossEntropyDesc desc = vocab_parallel_cross_entropy_desc();
    desc.first_class = first[s];
    desc.total_classes = 5;
    VocabParallelCrossEntropyArgs args = vocab_parallel_cross_entropy_args();
    const Tensor x = columns(logits, s), d_x = columns(d, s);
    args.logits = x;
    args.labels = labels;
    args.partials = partials;
    args.loss = loss;
    args.d_logits = d_x;
    vocab_parallel_cross_entropy(context_, desc, args);
    expect_failure(ligerdsl_context_check(context_.get(), nullptr), LIGERDSL_INVALID_LABEL, {"out of bounds", "row 2"});
    EXPECT_FLOAT_EQ(loss.floats()[0], std::log(5.0f));
    EXPECT_EQ(loss.floats()[1], 0);
    EXPECT_TRUE(std::isnan(loss.floats()[2]));
  }
  for (int j = 0; j < 5; ++j) {
    EXPECT_NEAR(d.floats()[j], j == 3 ? -0.8f : 0.2f, 1e-6f) << j;
    EXPECT_EQ(d.floats()[5 + j], 0) << j;
    EXPECT_TRUE(std::isnan(d.floats()[10 + j])) << j;
  }
}

// Row 1 is ignored and holds NaN; the first row's terms are ln 2 and 0, the second's 0 and ln 2.
TEST_F(Execute, DivergencesOfRowsThatCount) {
  const float log_half = std::log(0.5f), minus_infinity = -std::numeric_limits<float>::infinity();
  Owned log_q(LIGERDSL_F32, {3, 2}), log_p(LIGERDSL_F32, {3, 2}), labels(LIGERDSL_I64, {3}), loss(LIGERDSL_F32, {1}),
      d(LIGERDSL_F32, {3, 2}), factor(LIGERDSL_F32, {1});
  const float q[] = {log_half, log_half, std::nanf(""), 1, log_half, log_half};
  const float p[] = {0, minus_infinity, 1, 1, minus_infinity, 0};
  std::copy_n(q, 6, log_q.floats());
  std::copy_n(p, 6, log_p.floats());
  labels.storage[1] = -100;
  factor.floats()[0] = 3;
  JsdDesc desc = jsd_desc();
  desc.beta = 0;
  JsdArgs args = jsd_args();
  args.input = log_q;
  args.target = log_p;
  args.labels = labels;
  args.d_loss = factor;
  args.loss = loss;
  args.d_input = d;
  const auto expect = [&](float value, std::vector<float> gradient) {
    EXPECT_NEAR(loss.floats()[0], value, 1e-6f);
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(d.floats()[i], gradient[i], 1e-6f) << i;
  };
  jsd(context_, desc, args);
  expect(-log_half, {-1.5f, 0, 0, 0, 0, -1.5f});
  desc.reduction = LIGERDSL_REDUCTION_MEAN;
  jsd(context_, desc, args);
  expect(-log_half / 2, {-0.75f, 0, 0, 0, 0, -0.75f});
  // The mixture is 3/4 and 1/4.
  desc.beta = 0.5f;
  desc.reduction = LIGERDSL_REDUCTION_SUM;
  jsd(context_, desc, args);
  const float above = 0.75f * std::log(2 / 3.0f), below = 0.75f * std::log(2.0f);
  expect(2 * (-0.5f * std::log(0.75f) + 0.25f * std::log(4 / 3.0f)), {above, below, 0, 0, below, above});
}

// A loss of every element, and upstream gradients of them; a loss in another type than input; over the input.
TEST_F(Execute, DivergencesWithoutAReduction) {
  Owned p(LIGERDSL_BF16, {2, 3}), q(LIGERDSL_F32, {2, 3}), loss(LIGERDSL_F32, {2, 3}), d_loss(LIGERDSL_F32, {2, 3});
  const float first[] = {1, 2, 3, 4, 5, 6}, second[] = {3, 2, 1, 4.25f, -1, 6};
  for (int i = 0; i < 6; ++i) p.halves()[i] = to_bf16(first[i]), d_loss.floats()[i] = static_cast<float>(i + 1);
  std::copy_n(second, 6, q.floats());
  TvdDesc desc = tvd_desc();
  desc.reduction = LIGERDSL_REDUCTION_NONE;
  desc.in_place = 1;
  TvdArgs args = tvd_args();
  args.input = args.d_input = p;
  args.target = q;
  args.d_loss = d_loss;
  args.loss = loss;
  tvd(context_, desc, args);
  const float values[] = {1, 0, 1, 0.125f, 3, 0}, gradient[] = {-0.5f, 0, 1.5f, -2, 2.5f, 0};
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(loss.floats()[i], values[i]) << i;
    EXPECT_EQ(p.halves()[i], to_bf16(gradient[i])) << i;
  }
}

// Without rows a mean divides by nothing: 0.
TEST_F(Execute, DivergenceOfNoRows) {
  Owned x(LIGERDSL_F32, {0, 4}), loss(LIGERDSL_F32, {1});
  loss.floats()[0] = 7;
  KlDivArgs args = kl_div_args();
  args.input = args.target = x;
  args.loss = loss;
  kl_div(context_, kl_div_desc(), args);
  EXPECT_EQ(loss.floats()[0], 0);
}

TEST_F(Execute, ThreadsShareAPlan) {
  VectorAddDesc desc = vector_add_desc();
  desc.dtype = LIGERDSL_F32;
  const VectorAddPlan plan(context_, desc);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Owned a(LIGERDSL_F32, {500}), b(LIGERDSL_F32, {500}), out(LIGERDSL_F32, {500});
      std::fill_n(a.floats(), 500, static_cast<float>(t));
      for (int i = 0; i < 50; ++i) {
        plan(add_args(a, b, out));
        wrong[t] += out.floats()[499] != static_cast<float>(t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

// The one-call form reads the queries of a causal softmax from the last dimension but one.
TEST_F(Execute, CausalSoftmaxOfMatrices) {
  constexpr int kQueries = 3, kColumns = 4;
  Owned x(LIGERDSL_F32, {2, kQueries, kColumns});
  SoftmaxForwardDesc desc = softmax_forward_desc();
  desc.causal = 1;
  SoftmaxForwardArgs args = softmax_forward_args();
  args.x = args.y = x;  // in place
  softmax_forward(context_, desc, args);
  for (int row = 0; row < 2 * kQueries; ++row) {
    const int allowed = row % kQueries + 1 + kColumns - kQueries;
    for (int j = 0; j < kColumns; ++j) {
      const float expected = j < allowed ? 1.0f / static_cast<float>(allowed) : 0.0f;
      EXPECT_NEAR(x.floats()[row * kColumns + j], expected, 1e-6) << row << ", " << j;
    }
  }
}

// Rotates q and k where a fused projection left them: slices [position, q heads | k heads | v heads, column] of one
// buffer.
TEST_F(Execute, RopeInPlaceOnSlicesOfOneBuffer) {
  constexpr int64_t kS = 5, kA = 3, kK = 1, kD = 4, kRow = (kA + 2 * kK) * kD;
  Owned qkv(LIGERDSL_F32, {kS, kRow}), cos(LIGERDSL_F32, {kS, kD}), sin(LIGERDSL_F32, {kS, kD});
  for (int64_t i = 0; i < kS * kRow; ++i) qkv.floats()[i] = static_cast<float>(i);
  for (int64_t i = 0; i < kS * kD; ++i) sin.floats()[i] = 1;  // a quarter turn: (a, b) -> (-b, a)
  const Tensor q(qkv.floats(), context_.device(), LIGERDSL_F32, {1, kS, kA, kD}, {kS * kRow, kRow, kD, 1});
  const Tensor k(qkv.floats() + kA * kD, context_.device(), LIGERDSL_F32, {1, kS, kK, kD}, {kS * kRow, kRow, kD, 1});
  RopeArgs args = rope_args();
  args.q = args.q_out = q;
  args.k = args.k_out = k;
  args.cos = cos;
  args.sin = sin;
  rope(context_, rope_desc(), args);
  for (int64_t i = 0; i < kS * kRow; ++i) {
    const int64_t column = i % kRow, d = column % kD;
    const bool rotated = column < (kA + kK) * kD;
    const float expected = !rotated     ? static_cast<float>(i)
                           : d < kD / 2 ? -static_cast<float>(i + kD / 2)
                                        : static_cast<float>(i - kD / 2);
    ASSERT_EQ(qkv.floats()[i], expected) << i;
  }
  RopeDesc back = rope_desc();
  back.inverse = 1;
  rope(context_, back, args);
  for (int64_t i = 0; i < kS * kRow; ++i) ASSERT_EQ(qkv.floats()[i], static_cast<float>(i)) << i;
}

// Gate and up as two slices of one buffer, against the fused layout of the same memory.
TEST_F(Execute, SwigluSlicesAreTheFusedLayout) {
  constexpr int64_t kRows = 6, kF = 9;
  Owned both(LIGERDSL_F32, {kRows, 2 * kF}), fused(LIGERDSL_F32, {kRows, kF}), apart(LIGERDSL_F32, {kRows, kF});
  for (int64_t i = 0; i < kRows * 2 * kF; ++i) both.floats()[i] = 0.25f * static_cast<float>(i % 23) - 2.0f;
  const Tensor gate(both.floats(), context_.device(), LIGERDSL_F32, {kRows, kF}, {2 * kF, 1});
  const Tensor up(both.floats() + kF, context_.device(), LIGERDSL_F32, {kRows, kF}, {2 * kF, 1});
  SwigluForwardArgs args = swiglu_forward_args();
  args.gate_up = both;
  args.out = fused;
  swiglu_forward(context_, swiglu_forward_desc(), args);
  args = swiglu_forward_args();
  args.gate = gate;
  args.up = up;
  args.out = apart;
  swiglu_forward(context_, swiglu_forward_desc(), args);
  const double g = both.floats()[0], expected = g / (1 + std::exp(-g)) * both.floats()[kF];
  EXPECT_NEAR(fused.floats()[0], expected, 1e-6);
  for (int64_t i = 0; i < kRows * kF; ++i) ASSERT_EQ(fused.floats()[i], apart.floats()[i]) << i;
}

TEST_F(Execute, GegluInPlaceOfTheFusedLayout) {
  constexpr int64_t kRows = 4, kF = 5;
  Owned both(LIGERDSL_F32, {kRows, 2 * kF}), out(LIGERDSL_F32, {kRows, kF}), d_out(LIGERDSL_F32, {kRows, kF});
  for (int64_t i = 0; i < kRows * 2 * kF; ++i) both.floats()[i] = 0.25f * static_cast<float>(i % 17) - 2.0f;
  std::fill_n(d_out.floats(), kRows * kF, 1.0f);
  const std::vector<float> before(both.floats(), both.floats() + kRows * 2 * kF);
  GegluForwardArgs forward = geglu_forward_args();
  forward.gate_up = both;
  forward.out = out;
  geglu_forward(context_, geglu_forward_desc(), forward);
  GegluBackwardArgs backward = geglu_backward_args();
  backward.d_out = d_out;
  backward.gate_up = backward.d_gate_up = both;
  geglu_backward(context_, geglu_backward_desc(), backward);
  for (int64_t i = 0; i < kRows * kF; ++i) {
    const int64_t at = i / kF * 2 * kF + i % kF;
    const double a = before[at], up = before[at + kF];
    const double gelu = 0.5 * a * (1 + std::tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)));
    EXPECT_NEAR(out.floats()[i], gelu * up, 2e-6) << i;
    EXPECT_NEAR(both.floats()[at + kF], gelu, 2e-6) << i;  // d_up
  }
}

// ReLU of a part of wider rows, in place; then gradients added to what d_x held.
TEST_F(Execute, ActivationsOfSlicesAndGradientsThatAdd) {
  constexpr int64_t kRows = 3, kF = 5, kStride = 7;
  Owned all(LIGERDSL_F32, {kRows, kStride}), d_y(LIGERDSL_F32, {kRows, kF}), d_x(LIGERDSL_F32, {kRows, kF});
  for (int64_t i = 0; i < kRows * kStride; ++i) all.floats()[i] = 0.5f * static_cast<float>(i % 9) - 2.0f;
  const std::vector<float> before(all.floats(), all.floats() + kRows * kStride);
  std::fill_n(d_y.floats(), kRows * kF, 3.0f);
  std::fill_n(d_x.floats(), kRows * kF, 0.25f);
  const Tensor x(all.floats(), context_.device(), LIGERDSL_F32, {kRows, kF}, {kStride, 1});
  ActivationBackwardDesc backward = activation_backward_desc();
  backward.kind = LIGERDSL_ACTIVATION_RELU_SQUARED;
  backward.accumulate = 1;
  ActivationBackwardArgs gradients = activation_backward_args();
  gradients.x = x;
  gradients.d_y = d_y;
  gradients.d_x = d_x;
  activation_backward(context_, backward, gradients);
  ActivationForwardDesc forward = activation_forward_desc();
  forward.kind = LIGERDSL_ACTIVATION_RELU;
  forward.in_place = 1;
  ActivationForwardArgs values = activation_forward_args();
  values.x = values.y = x;
  activation_forward(context_, forward, values);
  for (int64_t i = 0; i < kRows * kStride; ++i) {
    const float u = before[i], positive = std::max(u, 0.0f);
    const bool inside = i % kStride < kF;
    EXPECT_EQ(all.floats()[i], inside ? positive : u) << i;
    if (inside) {
      EXPECT_EQ(d_x.floats()[i / kStride * kF + i % kStride], 0.25f + 6 * positive) << i;
    }
  }
}

TEST_F(Execute, LayerNormForwardAndBackward) {
  Owned x(LIGERDSL_F32, {1, 4}), w(LIGERDSL_F32, {4}), b(LIGERDSL_F32, {4}), y(LIGERDSL_F32, {1, 4});
  Owned mean(LIGERDSL_F32, {1}), rstd(LIGERDSL_F32, {1}), d_y(LIGERDSL_F32, {1, 4}), d_bias(LIGERDSL_F32, {4});
  Owned d_weight(LIGERDSL_F32, {4});
  std::iota(x.floats(), x.floats() + 4, 1.0f);
  std::fill_n(w.floats(), 4, 2.0f);
  std::fill_n(b.floats(), 4, 0.5f);
  LayerNormForwardArgs args = layer_norm_forward_args();
  args.x = x;
  args.weight = w;
  args.bias = b;
  args.y = y;
  args.mean = mean;
  args.rstd = rstd;
  layer_norm_forward(context_, layer_norm_forward_desc(), args);
  const double r = 1 / std::sqrt(1.25 + 1e-6);
  EXPECT_FLOAT_EQ(mean.floats()[0], 2.5f);
  EXPECT_NEAR(rstd.floats()[0], r, 1e-6);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(y.floats()[i], (i - 1.5) * r * 2 + 0.5, 1e-5) << i;

  std::fill_n(d_y.floats(), 4, 3.0f);  // a constant gradient moves no row of zero mean
  LayerNormBackwardArgs back = layer_norm_backward_args();
  back.d_y = back.d_x = d_y;
  back.x = x;
  back.weight = w;
  back.mean = mean;
  back.rstd = rstd;
  back.d_weight = d_weight;
  back.d_bias = d_bias;
  layer_norm_backward(context_, layer_norm_backward_desc(), back);
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(d_y.floats()[i], 0, 1e-5) << i;
    EXPECT_NEAR(d_weight.floats()[i], 3 * (i - 1.5) * r, 1e-5) << i;
    EXPECT_FLOAT_EQ(d_bias.floats()[i], 3) << i;
  }
}

// y may be x; the gradient is added to what is there.
TEST_F(Execute, BiasAndItsGradient) {
  Owned x(LIGERDSL_F32, {2, 3, 4}), bias(LIGERDSL_F32, {4}), d_bias(LIGERDSL_F32, {4});
  std::iota(x.floats(), x.floats() + 24, 0.0f);
  std::iota(bias.floats(), bias.floats() + 4, 100.0f);
  std::fill_n(d_bias.floats(), 4, 1000.0f);
  BiasAddForwardArgs args = bias_add_forward_args();
  args.x = args.y = x;
  args.bias = bias;
  bias_add_forward(context_, bias_add_forward_desc(), args);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(x.floats()[i], static_cast<float>(i + 100 + i % 4)) << i;

  BiasAddBackwardDesc desc = bias_add_backward_desc();
  desc.accumulate = 1;
  BiasAddBackwardArgs back = bias_add_backward_args();
  back.d_y = x;
  back.d_bias = d_bias;
  bias_add_backward(context_, desc, back);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(d_bias.floats()[i], 1000.0f + 60 + 6 * (100 + 2 * i)) << i;
}

// The gradient draws the forward's mask, with seed and a part of the offset read from memory; another offset draws another.
TEST_F(Execute, DropoutAndItsGradientDrawOneMask) {
  constexpr int64_t kRows = 5, kF = 30, kCount = kRows * kF;
  Owned x(LIGERDSL_F32, {kRows, kF}), y(LIGERDSL_F32, {kRows, kF}), d(LIGERDSL_F32, {kRows, kF});
  Owned seed(LIGERDSL_I64, {1}), offset(LIGERDSL_I64, {1});
  std::iota(x.floats(), x.floats() + kCount, 1.0f);
  std::fill_n(d.floats(), kCount, 1.0f);
  DropoutForwardDesc forward = dropout_forward_desc();
  DropoutForwardArgs values = dropout_forward_args();
  values.x = x;
  values.y = y;
  values.p = 0.75f;
  values.seed = 0x123456789abcdef0;
  values.offset = 40;
  dropout_forward(context_, forward, values);

  DropoutBackwardDesc backward = dropout_backward_desc();
  backward.with_device_seed = backward.in_place = 1;
  DropoutBackwardArgs gradients = dropout_backward_args();
  gradients.d_y = gradients.d_x = d;
  gradients.device_seed = seed;
  gradients.device_offset = offset;
  gradients.p = 0.75f;
  gradients.offset = 15;
  seed.storage[0] = values.seed;
  offset.storage[0] = 25;
  dropout_backward(context_, backward, gradients);
  int stayed = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    EXPECT_TRUE(d.floats()[i] == 0 || d.floats()[i] == 4) << i;
    EXPECT_EQ(y.floats()[i], d.floats()[i] * x.floats()[i]) << i;
    stayed += d.floats()[i] != 0;
  }
  EXPECT_GT(stayed, 0);
  EXPECT_LT(stayed, kCount);

  const std::vector<float> first(y.floats(), y.floats() + kCount);
  values.offset += (kCount + 3) / 4;
  dropout_forward(context_, forward, values);
  EXPECT_FALSE(std::equal(first.begin(), first.end(), y.floats()));
}

// What is NULL is not there: the bias, and either gradient.
TEST_F(Execute, LayerNormWithoutBiasAndWithOneGradient) {
  Owned x(LIGERDSL_F32, {1, 4}), w(LIGERDSL_F32, {4}), y(LIGERDSL_F32, {1, 4}), d_x(LIGERDSL_F32, {1, 4});
  Owned mean(LIGERDSL_F32, {1}), rstd(LIGERDSL_F32, {1}), d_y(LIGERDSL_F32, {1, 4}), gradient(LIGERDSL_F32, {4});
  std::iota(x.floats(), x.floats() + 4, 1.0f);
  std::fill_n(w.floats(), 4, 2.0f);
  std::fill_n(d_y.floats(), 4, 3.0f);
  LayerNormForwardArgs args = layer_norm_forward_args();
  args.x = x;
  args.weight = w;
  args.y = y;
  args.mean = mean;
  args.rstd = rstd;
  layer_norm_forward(context_, layer_norm_forward_desc(), args);
  const double r = 1 / std::sqrt(1.25 + 1e-6);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(y.floats()[i], (i - 1.5) * r * 2, 1e-5) << i;

  LayerNormBackwardArgs back = layer_norm_backward_args();
  back.d_y = d_y;
  back.x = x;
  back.weight = w;
  back.mean = mean;
  back.rstd = rstd;
  back.d_x = d_x;
  back.d_bias = gradient;
  layer_norm_backward(context_, layer_norm_backward_desc(), back);
  for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(gradient.floats()[i], 3) << i;
  std::swap(back.d_weight, back.d_bias);
  layer_norm_backward(context_, layer_norm_backward_desc(), back);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(gradient.floats()[i], 3 * (i - 1.5) * r, 1e-5) << i;

  LayerNormBackwardDesc desc = layer_norm_backward_desc();
  desc.d_weight_dtype = LIGERDSL_F32;
  desc.d_bias_dtype = LIGERDSL_BF16;
  back.d_bias = gradient;
  EXPECT_NE(ligerdsl_layer_norm_backward(context_.get(), &desc, &back, nullptr), LIGERDSL_SUCCESS);
  LayerNormForwardDesc forward = layer_norm_forward_desc();
  forward.bias_dtype = LIGERDSL_BF16;
  args.bias = w;
  expect_failure(ligerdsl_layer_norm_forward(context_.get(), &forward, &args, nullptr), LIGERDSL_INVALID_DTYPE,
                 {"bias"});
}

// Quarter turns from complex numbers: neighbours (a, b) -> (-b, a) in the first two columns, the others copied.
TEST_F(Execute, RopeOfNeighboursFromComplexNumbers) {
  constexpr int64_t kS = 3, kA = 2, kD = 5;
  Owned q(LIGERDSL_F32, {1, kS, kA, kD}), out(LIGERDSL_F32, {1, kS, kA, kD}), table(LIGERDSL_F32, {kS, 2});
  for (int64_t i = 0; i < kS * kA * kD; ++i) q.floats()[i] = static_cast<float>(i + 1);
  for (int64_t s = 0; s < kS; ++s) table.floats()[2 * s + 1] = 1;
  RopeDesc desc = rope_desc();
  desc.layout = LIGERDSL_ROPE_INTERLEAVED;
  desc.rotary_dim = 2;
  desc.complex_table = 1;
  RopeArgs args = rope_args();
  args.q = q;
  args.q_out = out;
  args.cos = table;
  rope(context_, desc, args);
  for (int64_t i = 0; i < kS * kA * kD; ++i) {
    const int64_t column = i % kD, from = static_cast<int64_t>(i) + (column == 0 ? 1 : column == 1 ? -1 : 0);
    const float expected = static_cast<float>(from + 1) * (column == 0 ? -1 : 1);
    ASSERT_EQ(out.floats()[i], expected) << i;
  }
  args.sin = table;
  expect_failure(ligerdsl_rope(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_ARGUMENT, {"sin"});
  desc.head_dim = 65537;
  expect_failure(ligerdsl_rope(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE, {"head_dim", "65536"});
  desc.head_dim = 0;
  args.sin = nullptr;
  desc.rotary_dim = 4;
  expect_failure(ligerdsl_rope(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE, {"`cos`", "D >= 4"});
  desc.rotary_dim = 6;
  expect_failure(ligerdsl_rope(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_ARGUMENT,
                 {"`rotary_dim`", "head_dim = 5", "got 6"});
  desc.rotary_dim = 2;
  desc.layout = LIGERDSL_ROPE_MULTIMODAL;
  expect_failure(ligerdsl_rope(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_ARGUMENT,
                 {"`time_section`", "expected 1"});
  desc.height_section = 1;
  expect_failure(ligerdsl_rope(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE,
                 {"`cos`", "[3, 1, S, D]"});
}

TEST_F(Execute, CountsOfTargets) {
  Owned labels(LIGERDSL_I64, {5}), counts(LIGERDSL_F32, {4});
  labels.storage[1] = labels.storage[3] = -100;
  TargetCountsArgs args = target_counts_args();
  args.labels = labels;
  args.counts = counts;
  target_counts(context_, target_counts_desc(), args);
  EXPECT_FLOAT_EQ(counts.floats()[0], 1.0f / 3);
  EXPECT_FLOAT_EQ(counts.floats()[1], 1.0f / 3);
  EXPECT_FLOAT_EQ(counts.floats()[2], 0);
  EXPECT_FLOAT_EQ(counts.floats()[3], 3);
}

TEST_F(Execute, NormOfNothing) {
  Owned norm(LIGERDSL_F32, {1}), factor(LIGERDSL_F32, {1}), nonfinite(LIGERDSL_I32, {1});
  norm.floats()[0] = factor.floats()[0] = 7;
  GlobalNormDesc desc = global_norm_desc();
  desc.dtype = LIGERDSL_F32;
  GlobalNormArgs args = global_norm_args();
  args.norm = norm;
  args.clip_factor = factor;
  args.nonfinite = nonfinite;
  global_norm(context_, desc, args);
  EXPECT_EQ(norm.floats()[0], 0);
  EXPECT_EQ(factor.floats()[0], 1);
  for (const float limit : {-1.0f, std::nanf("")}) {
    args.max_norm = limit;  // would turn every gradient around
    expect_failure(ligerdsl_global_norm(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_ARGUMENT,
                   {"`max_norm`", ">= 0", "got "});
  }
}

TEST_F(Execute, NormRefusesAWorkspaceOverItsTensors) {
  GlobalNormDesc desc = global_norm_desc();
  desc.dtype = LIGERDSL_F32;
  const GlobalNormPlan plan(context_, desc);
  Owned norm(LIGERDSL_F32, {1}), memory(LIGERDSL_F32, {4096});
  const ligerdsl_tensor_t* list = memory;
  GlobalNormArgs args = global_norm_args();
  args.norm = norm;
  args.tensors = list;
  args.n_tensors = 1;
  auto inside = reinterpret_cast<uintptr_t>(memory.floats() + 1024) / 256 * 256;
  expect_failure(ligerdsl_global_norm_execute(plan.get(), &args, reinterpret_cast<void*>(inside), 8192, nullptr),
                 LIGERDSL_INVALID_ALIAS, {"`tensors`", "workspace"});
}

// out = x * factor, written by an author.
std::string scale_program() {
  KernelBuilder k("scale");
  View out = k.view("out", f32, {dyn});
  View x = k.view("x", f32, {dyn});
  Scalar factor = k.scalar("factor", f32);
  Scalar i = k.program_id(0);
  out.partition({64}).store({i}, x.partition({64}).load({i}) * factor);
  return k.finish_bytes();
}

TEST_F(Execute, AuthorsKernel) {
  const CompiledKernel kernel(context_, scale_program());
  Owned x(LIGERDSL_F32, {100}), out(LIGERDSL_F32, {100}), wrong(LIGERDSL_F32, {10, 10});
  std::iota(x.floats(), x.floats() + 100, 0.0f);
  kernel.launch(2, {out.tensor, x.tensor, 3.0f});
  for (int i = 0; i < 100; ++i) ASSERT_EQ(out.floats()[i], 3.0f * static_cast<float>(i));
  kernel.launch(0, {x.tensor, x.tensor, 3.0f});  // no program runs
  EXPECT_EQ(x.floats()[99], 99);

  const int32_t grid[3] = {2, 1, 1}, negative[3] = {2, -1, 1};
  ligerdsl_kernel_arg_t args[3] = {KernelArg(out.tensor).raw(), KernelArg(x.tensor).raw(), KernelArg(3.0f).raw()};
  expect_failure(ligerdsl_kernel_launch(kernel.get(), args, 2, grid, nullptr), LIGERDSL_INVALID_ARGUMENT,
                 {"takes 3", "got 2"});
  expect_failure(ligerdsl_kernel_launch(kernel.get(), args, 3, negative, nullptr), LIGERDSL_INVALID_SHAPE,
                 {"grid", "got -1"});
  args[2] = KernelArg(3).raw();
  expect_failure(ligerdsl_kernel_launch(kernel.get(), args, 3, grid, nullptr), LIGERDSL_INVALID_ARGUMENT,
                 {"`factor`", "NUMBER"});
  args[2] = KernelArg(3.0f).raw();
  args[0] = KernelArg(wrong.tensor).raw();
  expect_failure(ligerdsl_kernel_launch(kernel.get(), args, 3, grid, nullptr), LIGERDSL_INVALID_SHAPE,
                 {"`out`", "expected 1", "got 2"});
}

TEST_F(Execute, IntegersMustHaveTheirValue) {
  KernelBuilder k("integers");
  k.view("out", f32, {dyn}).store({0}, 1.0f);
  k.scalar("flag", i1);
  k.scalar("small", i8);
  k.scalar("medium", i16);
  k.scalar("n", i32);
  k.scalar("large", i64);
  const CompiledKernel kernel(context_, k.finish_bytes());
  Owned out(LIGERDSL_F32, {1});
  const auto launch = [&](std::vector<int64_t> integers) {
    std::vector<ligerdsl_kernel_arg_t> args{KernelArg(out.tensor).raw()};
    for (const int64_t integer : integers) args.push_back(KernelArg(integer).raw());
    const int32_t grid[3] = {1, 1, 1};
    return ligerdsl_kernel_launch(kernel.get(), args.data(), args.size(), grid, nullptr);
  };
  EXPECT_EQ(launch({1, 127, 32767, INT32_MAX, INT64_MAX}), LIGERDSL_SUCCESS) << ligerdsl_last_error();
  EXPECT_EQ(launch({0, -128, -32768, INT32_MIN, INT64_MIN}), LIGERDSL_SUCCESS) << ligerdsl_last_error();
  expect_failure(launch({2, 0, 0, 0, 0}), LIGERDSL_INVALID_ARGUMENT, {"`flag`", "i1, 0 to 1, got 2"});
  expect_failure(launch({0, 128, 0, 0, 0}), LIGERDSL_INVALID_ARGUMENT, {"`small`", "i8, -128 to 127, got 128"});
  expect_failure(launch({0, 0, 32768, 0, 0}), LIGERDSL_INVALID_ARGUMENT, {"`medium`", "i16, -32768 to 32767"});
  expect_failure(launch({0, 0, 0, int64_t{1} << 40, 0}), LIGERDSL_INVALID_ARGUMENT,
                 {"`n`", "i32, -2147483648 to 2147483647, got 1099511627776"});
}

// Doubles x, then overwrites it through pointers that a loop carries: the load must not be moved behind the stores, nor
// be taken for one of memory that nobody writes.
TEST_F(Execute, StoresThroughCarriedPointers) {
  KernelBuilder k("carried");
  Ptr out = k.ptr("out", f32), x = k.ptr("x", f32);
  Tile value = load(x + k.arange(16));
  k.for_range(0, 2, 1, carry(x + k.arange(8)), [&](Scalar, PtrTile at) {
    store(at, k.full({8}, -1.0, f32));
    return carry(at + 8);
  });
  k.for_range(0, 1, 1, carry(out + k.arange(16)), [&](Scalar, PtrTile at) {
    store(at, value * 2.0f);
    return carry(at);
  });
  const std::string program = k.finish_bytes();
  for (const int32_t no_alias : {0, 1}) {
    ligerdsl_kernel_options_t options = kernel_options();
    options.no_alias = no_alias;
    const CompiledKernel kernel(context_, program, options);
    Owned to(LIGERDSL_F32, {16}), from(LIGERDSL_F32, {16});
    std::iota(from.floats(), from.floats() + 16, 0.0f);
    kernel.launch(1, {to.floats(), from.floats()});
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(to.floats()[i], 2.0f * static_cast<float>(i)) << i;
      EXPECT_EQ(from.floats()[i], -1.0f) << i;
    }
  }
}

TEST_F(Execute, WrittenViewsReachEveryElementOnce) {
  KernelBuilder k("rows");
  View to = k.view("to", f32, {dyn, dyn});
  View from = k.view("from", f32, {dyn, dyn});
  to.partition({2, 8}).store({0, 0}, from.partition({2, 8}).load({0, 0}));
  const CompiledKernel rows(context_, k.finish_bytes());
  Owned window(LIGERDSL_F32, {2, 8}, {1, 1}), plain(LIGERDSL_F32, {2, 8});
  std::iota(window.floats(), window.floats() + 9, 0.0f);
  rows.launch(1, {plain.tensor, window.tensor});  // what is only read may overlap itself
  EXPECT_EQ(plain.floats()[15], 8);
  const ligerdsl_kernel_arg_t args[2] = {KernelArg(window.tensor).raw(), KernelArg(plain.tensor).raw()};
  const int32_t grid[3] = {1, 1, 1};
  expect_failure(ligerdsl_kernel_launch(rows.get(), args, 2, grid, nullptr), LIGERDSL_INVALID_ALIAS,
                 {"`to`", "one element through two indices"});
}

TEST_F(Execute, BytesWordsAndBooleans) {
  KernelBuilder k("bytes");
  View positive = k.view("positive", i1, {dyn});
  View twice = k.view("twice", i8, {dyn});
  View x = k.view("x", i8, {dyn});
  Tile value = x.partition({16}).load({0});
  positive.partition({16}).store({0}, value > 0);
  twice.partition({16}).store({0}, value + value);
  k.view("wide", i16, {dyn}).partition({16}).store({0}, value.to(i16) * 300);
  const CompiledKernel kernel(context_, k.finish_bytes());
  Owned positive_(LIGERDSL_BOOL, {10}), twice_(LIGERDSL_I8, {10}), x_(LIGERDSL_I8, {10}), wide_(LIGERDSL_I16, {10});
  auto* in = reinterpret_cast<int8_t*>(x_.floats());
  for (int i = 0; i < 10; ++i) in[i] = static_cast<int8_t>(i - 5);
  kernel.launch(1, {positive_.tensor, twice_.tensor, x_.tensor, wide_.tensor});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(reinterpret_cast<uint8_t*>(positive_.floats())[i], i > 5);
    EXPECT_EQ(reinterpret_cast<int8_t*>(twice_.floats())[i], 2 * (i - 5));
    EXPECT_EQ(reinterpret_cast<int16_t*>(wide_.floats())[i], 300 * (i - 5));
  }
  EXPECT_EQ(reinterpret_cast<uint8_t*>(positive_.floats())[10], 0) << "written past the end";
}

TEST_F(Execute, Fp8) {
  KernelBuilder k("fp8");
  View small = k.view("small", f8e4m3, {dyn}), wide = k.view("wide", f8e5m2, {dyn}), x = k.view("x", f32, {dyn});
  Tile value = x.partition({16}).load({0});
  small.partition({16}).store({0}, value.to(f8e4m3));
  wide.partition({16}).store({0}, (value * k.scalar("scale", f8e5m2).to(f32)).to(f8e5m2));
  const CompiledKernel kernel(context_, k.finish_bytes());
  Owned small_(LIGERDSL_F8E4M3, {10}), wide_(LIGERDSL_F8E5M2, {10}), x_(LIGERDSL_F32, {10});
  for (int i = 0; i < 10; ++i) x_.floats()[i] = static_cast<float>(1 << i);
  kernel.launch(1, {small_.tensor, wide_.tensor, x_.tensor, 2.0f});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(reinterpret_cast<uint8_t*>(small_.floats())[i], i < 9 ? (7 + i) << 3 : 0x7e) << i;
    EXPECT_EQ(reinterpret_cast<uint8_t*>(wide_.floats())[i], (16 + i) << 2) << i;
  }
  const ligerdsl_kernel_arg_t args[4] = {KernelArg(wide_.tensor).raw(), KernelArg(wide_.tensor).raw(),
                                         KernelArg(x_.tensor).raw(), KernelArg(2.0f).raw()};
  const int32_t grid[3] = {1, 1, 1};
  expect_failure(ligerdsl_kernel_launch(kernel.get(), args, 4, grid, nullptr), LIGERDSL_INVALID_DTYPE,
                 {"`small`", "expected f8e4m3, got f8e5m2"});
}

TEST_F(Execute, ParametersOfAKernelAreTold) {
  KernelBuilder k("told");
  View out = k.view("out", bf16, {dyn, dyn});
  View x = k.view("x", f8e4m3, {dyn});
  Ptr table = k.ptr("table", i32), sums = k.ptr("sums", f32);
  out.partition({squeeze, 8}).store({0, 0}, x.partition({8}).load({0}).to(f32).to(bf16));
  Scalar first = k.scalar("first", i64), scale = k.scalar("scale", f32);
  store(sums + load(table + first), scale);
  const CompiledKernel kernel(context_, k.finish_bytes());
  struct Told {
    const char* name;
    int32_t kind, dtype, rank, written;
  };
  const Told expected[] = {
      {"out", LIGERDSL_ARG_TENSOR, LIGERDSL_BF16, 2, 1},   {"x", LIGERDSL_ARG_TENSOR, LIGERDSL_F8E4M3, 1, 0},
      {"table", LIGERDSL_ARG_POINTER, LIGERDSL_I32, 0, 0}, {"sums", LIGERDSL_ARG_POINTER, LIGERDSL_F32, 0, 1},
      {"first", LIGERDSL_ARG_INTEGER, LIGERDSL_I64, 0, 0}, {"scale", LIGERDSL_ARG_NUMBER, LIGERDSL_F32, 0, 0}};
  const auto parameters = kernel.parameters();
  ASSERT_EQ(parameters.size(), std::size(expected));
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_STREQ(parameters[i].name, expected[i].name);
    EXPECT_EQ(parameters[i].kind, expected[i].kind) << expected[i].name;
    EXPECT_EQ(parameters[i].dtype, expected[i].dtype) << expected[i].name;
    EXPECT_EQ(parameters[i].rank, expected[i].rank) << expected[i].name;
    EXPECT_EQ(parameters[i].written, expected[i].written) << expected[i].name;
  }

  // Of a later version, whose elements are larger.
  struct Later {
    ligerdsl_kernel_parameter_t known;
    int64_t added;
  } later[6];
  std::memset(later, 0xff, sizeof later);
  size_t count = 6;
  ASSERT_EQ(ligerdsl_kernel_parameters(kernel.get(), &later[0].known, sizeof later[0], &count), LIGERDSL_SUCCESS);
  EXPECT_STREQ(later[5].known.name, "scale");
  EXPECT_EQ(later[5].added, 0);

  ligerdsl_kernel_parameter_t few[5];
  count = 5;
  expect_failure(ligerdsl_kernel_parameters(kernel.get(), few, sizeof few[0], &count), LIGERDSL_INVALID_ARGUMENT,
                 {"`count`", "told", "6 parameters", "room for 5"});
  EXPECT_EQ(count, 6u);
  expect_failure(ligerdsl_kernel_parameters(kernel.get(), few, 8, &count), LIGERDSL_INVALID_ARGUMENT,
                 {"`parameter_bytes`", "sizeof(ligerdsl_kernel_parameter_t)", "8"});
  expect_failure(ligerdsl_kernel_parameters(kernel.get(), few, sizeof few[0], nullptr), LIGERDSL_INVALID_NULL_POINTER,
                 {"`count`"});
}

TEST_F(Execute, ShardsOfAVocabularyAreChecked) {
  Owned x(LIGERDSL_F32, {4, 8}), labels(LIGERDSL_I64, {4}), three(LIGERDSL_F32, {2, 4, 3}), five(LIGERDSL_F32, {4, 5}),
      odd(LIGERDSL_F32, {6, 3}), loss(LIGERDSL_F32, {4}), upstream(LIGERDSL_F32, {4}), one(LIGERDSL_F32, {1}),
      column(LIGERDSL_F32, {4, 1});
  VocabParallelCrossEntropyPartialsDesc first = vocab_parallel_cross_entropy_partials_desc();
  VocabParallelCrossEntropyPartialsArgs statistics = vocab_parallel_cross_entropy_partials_args();
  const auto first_refused = [&](ligerdsl_status_t status, std::initializer_list<const char*> words) {
    expect_failure(ligerdsl_vocab_parallel_cross_entropy_partials(context_.get(), &first, &statistics, nullptr), status,
                   words);
  };
  statistics.logits = x;
  statistics.labels = labels;
  statistics.partials = five;
  first_refused(LIGERDSL_INVALID_SHAPE, {"`partials`", "rows of 3 numbers without `with_smoothing`", "got 5"});
  first.first_class = 16;
  first.total_classes = 20;
  first_refused(LIGERDSL_INVALID_ARGUMENT, {"`total_classes`", "16 + 8", "got 20"});
  first.first_class = -1;
  first_refused(LIGERDSL_INVALID_ARGUMENT, {"`first_class`", "got -1"});

  VocabParallelCrossEntropyDesc desc = vocab_parallel_cross_entropy_desc();
  VocabParallelCrossEntropyArgs args = vocab_parallel_cross_entropy_args();
  const auto refused = [&](ligerdsl_status_t status, std::initializer_list<const char*> words) {
    expect_failure(ligerdsl_vocab_parallel_cross_entropy(context_.get(), &desc, &args, nullptr), status, words);
  };
  args.logits = x;
  args.labels = labels;
  args.partials = three;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`without_loss`", "expected 0 where d_logits is not wanted"});
  args.loss = one;
  refused(LIGERDSL_INVALID_SHAPE, {"`loss`", "expected 4 elements", "got 1"});
  args.loss = loss;
  args.d_loss = upstream;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`with_d_loss`", "expected 0 without d_logits"});
  args.d_loss = nullptr;
  args.partials = odd;
  refused(LIGERDSL_INVALID_SHAPE, {"`partials`", "a multiple of the 4 of labels", "got 6"});
  args.partials = five;
  refused(LIGERDSL_INVALID_SHAPE, {"`partials`", "rows of 3 numbers without `label_smoothing`", "got 5"});
  desc.label_smoothing = 0.1f;
  args.partials = three;
  refused(LIGERDSL_INVALID_SHAPE, {"`partials`", "rows of 5 numbers with `label_smoothing`", "got 3"});
  args.partials = five;
  desc.shard_smoothing = 1;
  desc.shard = 1;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`shard`", "one of the 1 shards", "got 1"});
  desc.shard = 0;
  desc.total_classes = 16;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`partials`", "shard_smoothing needs those of each shard", "one of 4 rows"});
  desc.total_classes = 0;
  const Tensor shared(labels.storage.data(), {LIGERDSL_CPU, 0}, LIGERDSL_F32, {4});
  args.loss = shared;
  refused(LIGERDSL_INVALID_ALIAS, {"`loss`", "`labels`"});
  args.loss = loss;
  desc.smooth_others = 1;
  desc.n_classes = 0;
  args.logits = column;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`smooth_others`", "one class"});
  desc.reduction = LIGERDSL_REDUCTION_BATCHMEAN;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`reduction`", "got 3"});
}

TEST_F(Execute, NoAliasIsChecked) {
  ligerdsl_kernel_options_t options = kernel_options();
  options.no_alias = 1;
  const CompiledKernel kernel(context_, scale_program(), options);
  Owned x(LIGERDSL_F32, {100});
  const ligerdsl_kernel_arg_t args[3] = {KernelArg(x.tensor).raw(), KernelArg(x.tensor).raw(), KernelArg(3.0f).raw()};
  const int32_t grid[3] = {2, 1, 1};
  expect_failure(ligerdsl_kernel_launch(kernel.get(), args, 3, grid, nullptr), LIGERDSL_INVALID_ALIAS,
                 {"`out`", "`x`", "no_alias"});
}

TEST_F(Execute, ReadOnlyViewsAreNotWritten) {
  KernelBuilder k("copy");
  View to = k.view("to", f32, {dyn});
  View from = k.view("from", f32, {dyn}, {.read_only = true});
  to.partition({16}).store({0}, from.partition({16}).load({0}));
  const CompiledKernel copy(context_, k.finish_bytes());
  Owned x(LIGERDSL_F32, {32}), out(LIGERDSL_F32, {32});
  std::iota(x.floats(), x.floats() + 32, 0.0f);
  copy.launch(1, {out.tensor, x.tensor});
  EXPECT_EQ(out.floats()[15], 15);
  const ligerdsl_kernel_arg_t args[2] = {KernelArg(x.tensor).raw(), KernelArg(x.tensor).raw()};
  const int32_t grid[3] = {1, 1, 1};
  expect_failure(ligerdsl_kernel_launch(copy.get(), args, 2, grid, nullptr), LIGERDSL_INVALID_ALIAS,
                 {"`to`", "`from`", "read_only"});

  View read = k.view("read", f32, {dyn}, {.read_only = true});
  Ptr p = k.ptr("p", f32);
  Scalar first = read.load({0});
  k.for_range(0, 2, 1, carry(p + k.arange(8)), [&](Scalar, PtrTile at) {
    store(at, k.full({8}, 1.0, f32) * first);
    return carry(at + 8);
  });
  const CompiledKernel apart(context_, k.finish_bytes());  // nothing has the view's address

  View watched = k.view("watched", f32, {dyn}, {.read_only = true});
  k.for_range(0, 2, 1, carry(watched.ptr() + k.arange(8)), [&](Scalar, PtrTile at) {
    store(at, k.full({8}, 1.0, f32));
    return carry(at + 8);
  });
  const std::string bytes = k.finish_bytes();
  ligerdsl_kernel_t refused = nullptr;
  expect_failure(ligerdsl_kernel_create(context_.get(), bytes.data(), bytes.size(), nullptr, &refused),
                 LIGERDSL_INVALID_PROGRAM, {"watched", "read_only", "a pointer that comes out of a loop"});
}

}  // namespace
}  // namespace ligerdsl::test
