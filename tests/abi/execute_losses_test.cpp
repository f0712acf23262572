// Execution of losses: labels, types and shapes of reduced results, divergences, target counts.
#include <cmath>

#include "execute.h"
#include "tests/support/half.h"

namespace ligerdsl::test::execute_losses_test {
namespace {

// Labels are a 2-D view whose dimensions merge into one stride. Labels without a common stride are
// refused, and so is a loss with a stride other than 1.
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
  Owned strided(LIGERDSL_F32, {4}, {2}), uneven(LIGERDSL_I64, {2, 2}, {5, 2});
  args.loss = strided;
  expect_failure(ligerdsl_cross_entropy(context_.get(), &desc, &args, nullptr),
                 LIGERDSL_INVALID_SHAPE, {"`loss`", "needs a stride of 1"});
  Owned no_logits(LIGERDSL_F32, {0, 5}, {0, 0}), no_labels(LIGERDSL_I64, {0}, {7}),
      no_loss(LIGERDSL_F32, {0}, {0});
  args.logits = no_logits;
  args.labels = no_labels;
  args.loss = no_loss;
  EXPECT_EQ(ligerdsl_cross_entropy(context_.get(), &desc, &args, nullptr), LIGERDSL_SUCCESS)
      << "strides of an empty tensor must be ignored";
  args.logits = logits;
  args.loss = loss;
  args.labels = uneven;
  expect_failure(ligerdsl_cross_entropy(context_.get(), &desc, &args, nullptr),
                 LIGERDSL_INVALID_SHAPE, {"`labels`", "not evenly strided"});
}

// A bf16 loss is the f32 loss rounded to bf16. Class weights in bf16 and f32 give the same losses
// if bf16 represents them exactly.
TEST_F(Execute, LossAndClassWeightsAcceptLogitsType) {
  Owned logits(LIGERDSL_BF16, {4, 5}), labels(LIGERDSL_I64, {4});
  for (int i = 0; i < 20; ++i) logits.halves()[i] = to_bf16(0.25f * static_cast<float>(i % 7));
  for (int i = 0; i < 4; ++i) labels.storage[static_cast<size_t>(i)] = i;
  Owned weight(LIGERDSL_F32, {5}), weight_bf16(LIGERDSL_BF16, {5});
  for (int i = 0; i < 5; ++i) {
    weight.floats()[i] = 0.5f * static_cast<float>(i + 1);
    weight_bf16.halves()[i] = to_bf16(weight.floats()[i]);
  }
  for (const int32_t reduction :
       {LIGERDSL_REDUCTION_NONE, LIGERDSL_REDUCTION_MEAN, LIGERDSL_REDUCTION_SUM}) {
    const int64_t n = reduction == LIGERDSL_REDUCTION_NONE ? 4 : 1;
    Owned loss(LIGERDSL_F32, {n}), z_loss(LIGERDSL_F32, {n}), loss_bf16(LIGERDSL_BF16, {n}),
        z_bf16(LIGERDSL_BF16, {n});
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
    expect_failure(ligerdsl_cross_entropy(context_.get(), &desc, &args, nullptr),
                   LIGERDSL_INVALID_DTYPE, {"z_loss", "expected bf16, got f32"});
  }
}

TEST_F(Execute, ReducedLossHasOneElement) {
  Owned logits(LIGERDSL_F32, {4, 5}), labels(LIGERDSL_I64, {4}), loss(LIGERDSL_F32, {4});
  const CrossEntropyDesc desc = cross_entropy_desc();
  CrossEntropyArgs args = cross_entropy_args();
  args.logits = logits;
  args.labels = labels;
  args.loss = loss;
  expect_failure(ligerdsl_cross_entropy(context_.get(), &desc, &args, nullptr),
                 LIGERDSL_INVALID_SHAPE, {"`loss`", "expected 1 element,", "got 4"});
}

// A loss has 1 element, or with REDUCTION_NONE one per input element. Any other size is refused.
TEST_F(Execute, DivergencesRefuseALossOfAnotherShape) {
  Owned x(LIGERDSL_F32, {4, 8}), y(LIGERDSL_F32, {4, 8}), few(LIGERDSL_F32, {4});
  JsdDesc desc = jsd_desc();
  JsdArgs args = jsd_args();
  args.input = x;
  args.target = y;
  args.loss = few;
  expect_failure(ligerdsl_jsd(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE,
                 {"`loss`", "expected 1 element,", "got 4"});
  desc.reduction = LIGERDSL_REDUCTION_NONE;
  expect_failure(ligerdsl_jsd(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE,
                 {"`loss`", "expected 32 elements", "got 4"});
}

TEST_F(Execute, GradientsWithoutTheLoss) {
  Owned logits(LIGERDSL_F32, {4, 5}), labels(LIGERDSL_I64, {4}), loss(LIGERDSL_F32, {4});
  Owned with(LIGERDSL_F32, {4, 5}), without(LIGERDSL_F32, {4, 5});
  for (int i = 0; i < 20; ++i) logits.floats()[i] = std::sin(static_cast<float>(i));
  for (int i = 0; i < 4; ++i) reinterpret_cast<int64_t*>(labels.storage.data())[i] = i;
  for (const int32_t reduction :
       {LIGERDSL_REDUCTION_NONE, LIGERDSL_REDUCTION_MEAN, LIGERDSL_REDUCTION_SUM}) {
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
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(without.floats()[i], with.floats()[i]) << "reduction " << reduction;
    args.d_logits = nullptr;
    expect_failure(ligerdsl_cross_entropy(context_.get(), &desc, &args, nullptr),
                   LIGERDSL_INVALID_ARGUMENT, {"`without_loss`", "got 1", "pass loss"});
  }
}

// Row 1 is ignored and holds NaN. The terms of row 0 are ln 2 and 0; those of row 2 are 0 and ln 2.
TEST_F(Execute, DivergencesSkipIgnoredRows) {
  const float log_half = std::log(0.5f), minus_infinity = -std::numeric_limits<float>::infinity();
  Owned log_q(LIGERDSL_F32, {3, 2}), log_p(LIGERDSL_F32, {3, 2}), labels(LIGERDSL_I64, {3}),
      loss(LIGERDSL_F32, {1}), d(LIGERDSL_F32, {3, 2}), factor(LIGERDSL_F32, {1});
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
  // With beta = 1/2, the mixture of both distributions has the probabilities 3/4 and 1/4.
  desc.beta = 0.5f;
  desc.reduction = LIGERDSL_REDUCTION_SUM;
  jsd(context_, desc, args);
  const float above = 0.75f * std::log(2 / 3.0f), below = 0.75f * std::log(2.0f);
  expect(2 * (-0.5f * std::log(0.75f) + 0.25f * std::log(4 / 3.0f)),
         {above, below, 0, 0, below, above});
}

// The input is bf16. Loss and upstream gradient are f32 and have its shape. The input's gradient
// overwrites the input.
TEST_F(Execute, DivergencesWithoutAReduction) {
  Owned p(LIGERDSL_BF16, {2, 3}), q(LIGERDSL_F32, {2, 3}), loss(LIGERDSL_F32, {2, 3}),
      d_loss(LIGERDSL_F32, {2, 3});
  const float first[] = {1, 2, 3, 4, 5, 6}, second[] = {3, 2, 1, 4.25f, -1, 6};
  for (int i = 0; i < 6; ++i)
    p.halves()[i] = to_bf16(first[i]), d_loss.floats()[i] = static_cast<float>(i + 1);
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

// The mean over no rows is 0, not a division by 0.
TEST_F(Execute, DivergenceOfNoRows) {
  Owned x(LIGERDSL_F32, {0, 4}), loss(LIGERDSL_F32, {1});
  loss.floats()[0] = 7;
  KlDivArgs args = kl_div_args();
  args.input = args.target = x;
  args.loss = loss;
  kl_div(context_, kl_div_desc(), args);
  EXPECT_EQ(loss.floats()[0], 0);
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

}  // namespace
}  // namespace ligerdsl::test::execute_losses_test
