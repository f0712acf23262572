// Residual sums with LayerNorm, gradients that are not wanted, and factors on the device, through the C ABI.
#include <cmath>
#include <numeric>

#include "support.h"

namespace ligerdsl::test {
namespace {

class Norms : public testing::Test {
 protected:
  Context context_ = Context::cpu(2);
  alignas(256) char workspace_[1 << 14];
};

// The sum takes the residual's place; its gradient that of what reached it by other ways.
TEST_F(Norms, FusedAddLayerNormInPlace) {
  Owned x(LIGERDSL_F32, {2, 4}), residual(LIGERDSL_F32, {2, 4}), w(LIGERDSL_F32, {4}), b(LIGERDSL_F32, {4});
  Owned y(LIGERDSL_F32, {2, 4}), mean(LIGERDSL_F32, {2}), rstd(LIGERDSL_F32, {2});
  std::iota(x.floats(), x.floats() + 8, 0.0f);
  std::fill_n(residual.floats(), 8, 1.0f);
  std::fill_n(w.floats(), 4, 2.0f);
  std::fill_n(b.floats(), 4, 0.5f);
  FusedAddLayerNormForwardArgs args = fused_add_layer_norm_forward_args();
  args.x = x;
  args.residual = args.sum = residual;
  args.weight = w;
  args.bias = b;
  args.y = y;
  args.mean = mean;
  args.rstd = rstd;
  fused_add_layer_norm_forward(context_, fused_add_layer_norm_forward_desc(), args);
  const double r = 1 / std::sqrt(1.25 + 1e-6);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(residual.floats()[i], static_cast<float>(i + 1)) << i;
    EXPECT_NEAR(y.floats()[i], (i % 4 - 1.5) * r * 2 + 0.5, 1e-5) << i;
  }
  EXPECT_FLOAT_EQ(mean.floats()[1], 6.5f);

  Owned d_y(LIGERDSL_F32, {2, 4}), d_sum(LIGERDSL_F32, {2, 4}), d_weight(LIGERDSL_F32, {4}), d_bias(LIGERDSL_F32, {4});
  std::fill_n(d_y.floats(), 8, 3.0f);  // a constant gradient moves no row of zero mean
  std::iota(d_sum.floats(), d_sum.floats() + 8, 10.0f);
  FusedAddLayerNormBackwardArgs back = fused_add_layer_norm_backward_args();
  back.d_y = d_y;
  back.d_sum = back.d_x = d_sum;
  back.sum = residual;
  back.weight = w;
  back.mean = mean;
  back.rstd = rstd;
  back.d_weight = d_weight;
  back.d_bias = d_bias;
  fused_add_layer_norm_backward(context_, fused_add_layer_norm_backward_desc(), back);
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(d_sum.floats()[i], 10 + i, 1e-5) << i;
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(d_weight.floats()[i], 2 * 3 * (i - 1.5) * r, 1e-5) << i;
    EXPECT_FLOAT_EQ(d_bias.floats()[i], 6) << i;
  }

  back.d_x = d_y;  // neither separate nor what the gradient of the sum was said to be
  FusedAddLayerNormBackwardDesc apart = fused_add_layer_norm_backward_desc();
  apart.n_cols = 4;
  apart.dtype = apart.weight_dtype = LIGERDSL_F32;
  apart.d_weight_dtype = apart.d_bias_dtype = LIGERDSL_F32;
  apart.with_d_sum = 1;
  const FusedAddLayerNormBackwardPlan plan(context_, apart);
  expect_failure(
      ligerdsl_fused_add_layer_norm_backward_execute(plan.get(), &back, workspace_, sizeof workspace_, nullptr),
      LIGERDSL_INVALID_ALIAS, {"`d_x`", "`d_y`", "in_place"});
}

// d_x NULL: the gradients of the parameters are what they are beside it, in the one-call form without a word.
TEST_F(Norms, WithoutDx) {
  Owned x(LIGERDSL_F32, {3, 4}), w(LIGERDSL_F32, {4}), rstd(LIGERDSL_F32, {3}), mean(LIGERDSL_F32, {3});
  Owned d_y(LIGERDSL_F32, {3, 4}), d_x(LIGERDSL_F32, {3, 4}), with(LIGERDSL_F32, {4}), without(LIGERDSL_F32, {4});
  std::iota(x.floats(), x.floats() + 12, -3.0f);
  std::iota(d_y.floats(), d_y.floats() + 12, 1.0f);
  std::fill_n(w.floats(), 4, 2.0f);
  std::fill_n(rstd.floats(), 3, 0.5f);
  std::iota(mean.floats(), mean.floats() + 3, 0.0f);

  RmsNormBackwardArgs rms = rms_norm_backward_args();
  rms.d_y = d_y;
  rms.x = x;
  rms.weight = w;
  rms.rstd = rstd;
  rms.d_x = d_x;
  rms.d_weight = with;
  rms_norm_backward(context_, rms_norm_backward_desc(), rms);
  rms.d_x = nullptr;
  rms.d_weight = without;
  rms_norm_backward(context_, rms_norm_backward_desc(), rms);
  for (int i = 0; i < 4; ++i) {
    double expected = 0;
    for (int row = 0; row < 3; ++row) expected += d_y.floats()[4 * row + i] * x.floats()[4 * row + i] * 0.5;
    EXPECT_FLOAT_EQ(without.floats()[i], static_cast<float>(expected)) << i;
    EXPECT_FLOAT_EQ(without.floats()[i], with.floats()[i]) << i;
  }

  FusedAddLayerNormBackwardArgs layer = fused_add_layer_norm_backward_args();
  layer.d_y = d_y;
  layer.sum = x;
  layer.weight = w;
  layer.mean = mean;
  layer.rstd = rstd;
  layer.d_weight = with;
  layer.d_bias = without;
  fused_add_layer_norm_backward(context_, fused_add_layer_norm_backward_desc(), layer);
  for (int i = 0; i < 4; ++i) {
    double weight = 0, bias = 0;
    for (int row = 0; row < 3; ++row) {
      bias += d_y.floats()[4 * row + i];
      weight += d_y.floats()[4 * row + i] * (x.floats()[4 * row + i] - row) * 0.5;
    }
    EXPECT_FLOAT_EQ(with.floats()[i], static_cast<float>(weight)) << i;
    EXPECT_FLOAT_EQ(without.floats()[i], static_cast<float>(bias)) << i;
  }
}

// A plan is told; what contradicts itself, or leaves nothing to do, is an error that says what to pass.
TEST_F(Norms, WithoutDxIsSaid) {
  Owned x(LIGERDSL_F32, {3, 4}), w(LIGERDSL_F32, {4}), rstd(LIGERDSL_F32, {3}), d_weight(LIGERDSL_F32, {4});
  RmsNormBackwardArgs args = rms_norm_backward_args();
  args.d_y = x;
  args.x = x;
  args.weight = w;
  args.rstd = rstd;
  const RmsNormBackwardDesc none = rms_norm_backward_desc();
  expect_failure(ligerdsl_rms_norm_backward(context_.get(), &none, &args, nullptr), LIGERDSL_INVALID_ARGUMENT,
                 {"`without_d_x`", "got 1", "pass d_x, or what of the parameters is wanted"});

  RmsNormBackwardDesc desc = rms_norm_backward_desc();
  desc.n_cols = 4;
  desc.dtype = desc.weight_dtype = desc.d_weight_dtype = LIGERDSL_F32;
  args.d_weight = d_weight;
  const RmsNormBackwardPlan with(context_, desc);
  expect_failure(ligerdsl_rms_norm_backward_execute(with.get(), &args, workspace_, sizeof workspace_, nullptr),
                 LIGERDSL_INVALID_NULL_POINTER, {"d_x"});
  desc.without_d_x = 1;
  const RmsNormBackwardPlan without(context_, desc);
  without(args, workspace_, sizeof workspace_);
  Owned d_x(LIGERDSL_F32, {3, 4});
  args.d_x = d_x;
  expect_failure(ligerdsl_rms_norm_backward_execute(without.get(), &args, workspace_, sizeof workspace_, nullptr),
                 LIGERDSL_INVALID_ARGUMENT, {"`d_x`", "the plan was made without it"});

  FusedAddRmsNormBackwardDesc sum = fused_add_rms_norm_backward_desc();
  sum.n_cols = 4;
  sum.dtype = sum.weight_dtype = sum.d_weight_dtype = LIGERDSL_F32;
  sum.without_d_x = sum.with_d_sum = 1;
  ligerdsl_plan_t plan = nullptr;
  expect_failure(ligerdsl_fused_add_rms_norm_backward_plan(context_.get(), &sum, &plan), LIGERDSL_INVALID_ARGUMENT,
                 {"`with_d_sum`: expected 0 without d_x, got 1", "both or neither"});
}

// Columns [1, 3) of rows of 4, in place; then each row by its own factor into memory of its own.
TEST_F(Norms, ScaleOfSlices) {
  Owned x(LIGERDSL_F32, {3, 4}), out(LIGERDSL_F32, {3, 2}), factor(LIGERDSL_F32, {1}), factors(LIGERDSL_F32, {3});
  std::iota(x.floats(), x.floats() + 12, 1.0f);
  factor.floats()[0] = 10;
  std::iota(factors.floats(), factors.floats() + 3, 1.0f);
  const Tensor slice(x.floats() + 1, context_.device(), LIGERDSL_F32, {3, 2}, {4, 1});
  ScaleArgs args = scale_args();
  args.x = args.out = slice;
  args.factor = factor;
  scale(context_, scale_desc(), args);
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(x.floats()[i], static_cast<float>((i + 1) * (i % 4 == 1 || i % 4 == 2 ? 10 : 1))) << i;

  ScaleDesc desc = scale_desc();
  desc.per_row = 1;
  args.out = out;
  expect_failure(ligerdsl_scale(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE,
                 {"`factor`: expected 3 elements, got 1"});
  args.factor = factors;
  scale(context_, desc, args);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out.floats()[i], x.floats()[4 * (i / 2) + 1 + i % 2] * (i / 2 + 1)) << i;
}

}  // namespace
}  // namespace ligerdsl::test
