// Norms through the C ABI: fused residual adds, omitted gradients, and device-side scales.
#include <cmath>
#include <numeric>
#include <vector>

#include "support.h"

namespace ligerdsl::test::norms_test {
namespace {

class Norms : public testing::Test {
 protected:
  Context context_ = Context::cpu(2);
  alignas(256) char workspace_[1 << 14];
};

// The sum overwrites the residual. d_x overwrites d_sum, the sum's gradient from other paths.
TEST_F(Norms, FusedAddLayerNormInPlace) {
  Owned x(LIGERDSL_F32, {2, 4}), residual(LIGERDSL_F32, {2, 4}), w(LIGERDSL_F32, {4}),
      b(LIGERDSL_F32, {4});
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

  Owned d_y(LIGERDSL_F32, {2, 4}), d_sum(LIGERDSL_F32, {2, 4}), d_weight(LIGERDSL_F32, {4}),
      d_bias(LIGERDSL_F32, {4});
  std::fill_n(d_y.floats(), 8, 3.0f);  // a constant gradient gives d_x = 0
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

  back.d_x = d_y;  // d_x must be separate memory or d_sum
  FusedAddLayerNormBackwardDesc desc = fused_add_layer_norm_backward_desc();
  desc.n_cols = 4;
  desc.dtype = desc.weight_dtype = LIGERDSL_F32;
  desc.d_weight_dtype = desc.d_bias_dtype = LIGERDSL_F32;
  desc.with_d_sum = 1;
  const FusedAddLayerNormBackwardPlan plan(context_, desc);
  expect_failure(ligerdsl_fused_add_layer_norm_backward_execute(plan.get(), &back, workspace_,
                                                                sizeof workspace_, nullptr),
                 LIGERDSL_INVALID_ALIAS, {"`d_x`", "`d_y`", "in_place"});
}

// Returns a row of `columns` values of magnitude `size` around `center`.
std::vector<float> row_of(int columns, double size, double center) {
  std::vector<float> row(columns);
  for (int i = 0; i < columns; ++i)
    row[i] = static_cast<float>(center + size * (i % 2 ? 1 + i * 0.125 : -1));
  return row;
}

double mean_square(const std::vector<float>& row, double center) {
  double sum = 0;
  for (const float value : row) sum += (value - center) * (value - center);
  return sum / static_cast<double>(row.size());
}

// In the documented range, f32 represents the squares of a row. Outside it, rstd is 0, NaN or above
// 1e19.
enum class Range { inside, above, below };
struct RangeCase {
  double size;
  Range range;
};
constexpr RangeCase kRanges[] = {
    {1e18, Range::inside}, {1, Range::inside},    {1e-18, Range::inside}, {1e20, Range::above},
    {1e30, Range::above},  {1e-20, Range::below}, {1e-30, Range::below}};

void expect_reported(float rstd, Range range, double variance) {
  switch (range) {
    case Range::inside:
      EXPECT_NEAR(rstd * std::sqrt(variance), 1, 1e-5);
      break;
    case Range::above:
      EXPECT_FALSE(rstd > 0) << rstd;  // 0 or NaN
      break;
    case Range::below:
      EXPECT_TRUE(rstd > 1e19 || std::isnan(rstd)) << rstd;  // precision is lost
      break;
  }
}

TEST_F(Norms, RstdReportsRowsOutsideTheRange) {
  constexpr int kColumns = 8;
  for (const auto& [size, range] : kRanges) {
    SCOPED_TRACE(size);
    const std::vector<float> row = row_of(kColumns, size, 0);
    const double mean = std::accumulate(row.begin(), row.end(), 0.0) / kColumns;
    Owned x(LIGERDSL_F32, {1, kColumns}), y(LIGERDSL_F32, {1, kColumns}), rstd(LIGERDSL_F32, {1}),
        means(LIGERDSL_F32, {1}), w(LIGERDSL_F32, {kColumns});
    std::copy(row.begin(), row.end(), x.floats());
    std::fill_n(w.floats(), kColumns, 1.0f);
    RmsNormForwardDesc rms_desc = rms_norm_forward_desc();
    rms_desc.eps = 0;
    RmsNormForwardArgs rms = rms_norm_forward_args();
    rms.x = x;
    rms.weight = w;
    rms.y = y;
    rms.rstd = rstd;
    rms_norm_forward(context_, rms_desc, rms);
    expect_reported(rstd.floats()[0], range, mean_square(row, 0));

    LayerNormForwardDesc layer_desc = layer_norm_forward_desc();
    layer_desc.eps = 0;
    LayerNormForwardArgs layer = layer_norm_forward_args();
    layer.x = x;
    layer.weight = w;
    layer.bias = w;
    layer.y = y;
    layer.mean = means;
    layer.rstd = rstd;
    layer_norm_forward(context_, layer_desc, layer);
    expect_reported(rstd.floats()[0], range, mean_square(row, mean));

    Owned image(LIGERDSL_F32, {1, 2, kColumns / 2}), out(LIGERDSL_F32, {1, 2, kColumns / 2}),
        group_mean(LIGERDSL_F32, {1, 1}), group_rstd(LIGERDSL_F32, {1, 1}),
        channels(LIGERDSL_F32, {2});
    std::copy(row.begin(), row.end(), image.floats());
    std::fill_n(channels.floats(), 2, 1.0f);
    GroupNormForwardDesc group_desc = group_norm_forward_desc();
    group_desc.eps = 0;
    GroupNormForwardArgs group = group_norm_forward_args();
    group.x = image;
    group.weight = channels;
    group.bias = channels;
    group.y = out;
    group.mean = group_mean;
    group.rstd = group_rstd;
    group_norm_forward(context_, group_desc, group);
    expect_reported(group_rstd.floats()[0], range, mean_square(row, mean));
  }
}

// With d_x = NULL, parameter gradients equal those of a call with d_x. The one-call form needs no
// option for this.
TEST_F(Norms, ParameterGradientsWithoutDxAreEqual) {
  Owned x(LIGERDSL_F32, {3, 4}), w(LIGERDSL_F32, {4}), rstd(LIGERDSL_F32, {3}),
      mean(LIGERDSL_F32, {3});
  Owned d_y(LIGERDSL_F32, {3, 4}), d_x(LIGERDSL_F32, {3, 4}), with(LIGERDSL_F32, {4}),
      without(LIGERDSL_F32, {4});
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
    for (int row = 0; row < 3; ++row)
      expected += d_y.floats()[4 * row + i] * x.floats()[4 * row + i] * 0.5;
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

// A plan without d_x needs `without_d_x`. Contradictory options and calls without any gradient
// fail, and the error names what to pass.
TEST_F(Norms, OmittedDxMustBeDescribed) {
  Owned x(LIGERDSL_F32, {3, 4}), w(LIGERDSL_F32, {4}), rstd(LIGERDSL_F32, {3}),
      d_weight(LIGERDSL_F32, {4});
  RmsNormBackwardArgs args = rms_norm_backward_args();
  args.d_y = x;
  args.x = x;
  args.weight = w;
  args.rstd = rstd;
  const RmsNormBackwardDesc none = rms_norm_backward_desc();
  expect_failure(ligerdsl_rms_norm_backward(context_.get(), &none, &args, nullptr),
                 LIGERDSL_INVALID_ARGUMENT,
                 {"`without_d_x`", "got 1", "request d_x or a parameter's gradient"});

  RmsNormBackwardDesc desc = rms_norm_backward_desc();
  desc.n_cols = 4;
  desc.dtype = desc.weight_dtype = desc.d_weight_dtype = LIGERDSL_F32;
  args.d_weight = d_weight;
  const RmsNormBackwardPlan with(context_, desc);
  expect_failure(
      ligerdsl_rms_norm_backward_execute(with.get(), &args, workspace_, sizeof workspace_, nullptr),
      LIGERDSL_INVALID_NULL_POINTER, {"d_x"});
  desc.without_d_x = 1;
  const RmsNormBackwardPlan without(context_, desc);
  without(args, workspace_, sizeof workspace_);
  Owned d_x(LIGERDSL_F32, {3, 4});
  args.d_x = d_x;
  expect_failure(ligerdsl_rms_norm_backward_execute(without.get(), &args, workspace_,
                                                    sizeof workspace_, nullptr),
                 LIGERDSL_INVALID_ARGUMENT,
                 {"`d_x`", "the plan's description does not include this tensor"});

  FusedAddRmsNormBackwardDesc sum = fused_add_rms_norm_backward_desc();
  sum.n_cols = 4;
  sum.dtype = sum.weight_dtype = sum.d_weight_dtype = LIGERDSL_F32;
  sum.without_d_x = sum.with_d_sum = 1;
  ligerdsl_plan_t plan = nullptr;
  expect_failure(ligerdsl_fused_add_rms_norm_backward_plan(context_.get(), &sum, &plan),
                 LIGERDSL_INVALID_ARGUMENT,
                 {"`with_d_sum`: expected 0 without d_x, got 1", "both or neither"});
}

// Scales columns [1, 3) of rows of 4 in place, then each row by its own factor into separate
// memory.
TEST_F(Norms, ScaleAcceptsSlices) {
  Owned x(LIGERDSL_F32, {3, 4}), out(LIGERDSL_F32, {3, 2}), factor(LIGERDSL_F32, {1}),
      factors(LIGERDSL_F32, {3});
  std::iota(x.floats(), x.floats() + 12, 1.0f);
  factor.floats()[0] = 10;
  std::iota(factors.floats(), factors.floats() + 3, 1.0f);
  const Tensor slice(x.floats() + 1, context_.device(), LIGERDSL_F32, {3, 2}, {4, 1});
  ScaleArgs args = scale_args();
  args.x = args.out = slice;
  args.factor = factor;
  scale(context_, scale_desc(), args);
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(x.floats()[i], static_cast<float>((i + 1) * (i % 4 == 1 || i % 4 == 2 ? 10 : 1)))
        << i;

  ScaleDesc desc = scale_desc();
  desc.per_row = 1;
  args.out = out;
  expect_failure(ligerdsl_scale(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE,
                 {"`factor`: expected 3 elements, got 1"});
  args.factor = factors;
  scale(context_, desc, args);
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(out.floats()[i], x.floats()[4 * (i / 2) + 1 + i % 2] * (i / 2 + 1)) << i;
}

// In a row of +-2, the normalised x^p is sign^p, so y = sign (w_3 + w_1) + w_2 + bias.
TEST_F(Norms, PolyNorm) {
  Owned x(LIGERDSL_F32, {2, 4}), weight(LIGERDSL_F32, {3}), bias(LIGERDSL_F32, {1}),
      y(LIGERDSL_F32, {2, 4}), rstd(LIGERDSL_F32, {2, 3});
  for (int i = 0; i < 8; ++i) x.floats()[i] = i % 2 ? -2.0f : 2.0f;
  const float w[] = {1, 10, 100};
  std::copy_n(w, 3, weight.floats());
  bias.floats()[0] = 1000;
  PolyNormForwardArgs args = poly_norm_forward_args();
  args.x = x;
  args.weight = weight;
  args.bias = bias;
  args.y = y;
  args.rstd = rstd;
  poly_norm_forward(context_, poly_norm_forward_desc(), args);
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(y.floats()[i], 1010 + (i % 2 ? -101 : 101), 1e-3) << i;
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(rstd.floats()[i], std::pow(2.0, i % 3 - 3), 1e-6) << i;

  // The upstream gradient has one nonzero element per row. d_x overwrites d_y.
  Owned d_y(LIGERDSL_F32, {2, 4}), d_weight(LIGERDSL_F32, {3});
  std::fill_n(d_y.floats(), 8, 0.0f);
  d_y.floats()[0] = d_y.floats()[5] = 1;
  PolyNormBackwardArgs back = poly_norm_backward_args();
  back.d_y = back.d_x = d_y;
  back.x = x;
  back.weight = weight;
  back.rstd = rstd;
  back.d_weight = d_weight;
  poly_norm_backward(context_, poly_norm_backward_desc(), back);
  const float of_rows[] = {0, 2, 0};  // signs cancel in odd powers
  for (int p = 0; p < 3; ++p) EXPECT_NEAR(d_weight.floats()[p], of_rows[p], 1e-5) << p;
  for (int i = 0; i < 8; ++i) {
    const int one = i < 4 ? 0 : 5;
    const double own = i == one, alike = i % 2 == one % 2 ? 1 : -1, sign = i % 2 ? -1 : 1;
    const double odd = (3 * 1 + 100) / 2.0 * (own - alike / 4), even = 10 * sign * (own - 0.25);
    EXPECT_NEAR(d_y.floats()[i], odd + even, 1e-3) << i;
  }

  Owned bf16(LIGERDSL_BF16, {1});
  back.d_bias = bf16;
  PolyNormBackwardDesc desc = poly_norm_backward_desc();
  expect_failure(ligerdsl_poly_norm_backward(context_.get(), &desc, &back, nullptr),
                 LIGERDSL_INVALID_DTYPE, {"`d_bias_dtype`", "expected f32, got bf16"});
}

// tanh(ln 2) = 0.6 and its slope is 0.64. Gradients are added to old values; d_bias is omitted.
TEST_F(Norms, Dyt) {
  Owned x(LIGERDSL_F32, {2, 2}), alpha(LIGERDSL_F32, {1}), weight(LIGERDSL_F32, {2}),
      y(LIGERDSL_F32, {2, 2});
  const float half = std::log(2.0f) / 2, rows[] = {half, -half, 0, half}, w[] = {10, 100};
  std::copy_n(rows, 4, x.floats());
  std::copy_n(w, 2, weight.floats());
  alpha.floats()[0] = 2;
  DytForwardArgs args = dyt_forward_args();
  args.x = x;
  args.alpha = alpha;
  args.weight = weight;
  args.y = y;
  dyt_forward(context_, dyt_forward_desc(), args);
  const float values[] = {6, -60, 0, 60};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(y.floats()[i], values[i], 1e-4) << i;

  Owned d_y(LIGERDSL_F32, {2, 2}), d_alpha(LIGERDSL_F32, {1}), d_weight(LIGERDSL_F32, {2});
  std::fill_n(d_y.floats(), 4, 1.0f);
  d_alpha.floats()[0] = d_weight.floats()[0] = d_weight.floats()[1] = 5;
  DytBackwardDesc desc = dyt_backward_desc();
  desc.accumulate = 1;
  DytBackwardArgs back = dyt_backward_args();
  back.d_y = back.d_x = d_y;
  back.x = x;
  back.alpha = alpha;
  back.weight = weight;
  back.d_alpha = d_alpha;
  back.d_weight = d_weight;
  dyt_backward(context_, desc, back);
  const float gradient[] = {12.8f, 128, 20, 128};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(d_y.floats()[i], gradient[i], 1e-3) << i;
  EXPECT_NEAR(d_alpha.floats()[0], 5 + half * 6.4f, 1e-4);  // the second column's terms cancel
  EXPECT_NEAR(d_weight.floats()[0], 5.6f, 1e-5);
  EXPECT_NEAR(d_weight.floats()[1], 5, 1e-5);

  Owned bf16(LIGERDSL_BF16, {2});
  back.d_bias = bf16;
  desc.accumulate = 0;
  expect_failure(ligerdsl_dyt_backward(context_.get(), &desc, &back, nullptr),
                 LIGERDSL_INVALID_DTYPE, {"`d_bias_dtype`", "expected f32, got bf16"});
}

// Rows of +-2 have normalised values of +-1. The second modulation applies to the last two rows.
TEST_F(Norms, ModulatedRmsNorm) {
  Owned x(LIGERDSL_F32, {4, 2}), scale(LIGERDSL_F32, {2, 2}), shift(LIGERDSL_F32, {2, 2}),
      y(LIGERDSL_F32, {4, 2}), rstd(LIGERDSL_F32, {4});
  for (int i = 0; i < 8; ++i) x.floats()[i] = i % 2 ? -2.0f : 2.0f;
  const float s[] = {0, 1, 2, 3}, h[] = {10, 20, 30, 40};
  std::copy_n(s, 4, scale.floats());
  std::copy_n(h, 4, shift.floats());
  ModulatedRmsNormForwardArgs args = modulated_rms_norm_forward_args();
  args.x = x;
  args.scale = scale;
  args.shift = shift;
  args.y = y;
  args.rstd = rstd;
  modulated_rms_norm_forward(context_, modulated_rms_norm_forward_desc(), args);
  const float values[] = {11, 18, 11, 18, 33, 36, 33, 36};
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(y.floats()[i], values[i], 1e-4) << i;

  // Gradients are added to old values. d_x, which would overwrite d_y, is omitted.
  Owned d_y(LIGERDSL_F32, {4, 2}), d_scale(LIGERDSL_F32, {2, 2}), d_shift(LIGERDSL_F32, {2, 2});
  for (int i = 0; i < 8; ++i) d_y.floats()[i] = static_cast<float>(i);
  std::fill_n(d_scale.floats(), 4, 100.0f);
  std::fill_n(d_shift.floats(), 4, 100.0f);
  ModulatedRmsNormBackwardDesc desc = modulated_rms_norm_backward_desc();
  desc.accumulate = 1;
  ModulatedRmsNormBackwardArgs back = modulated_rms_norm_backward_args();
  back.d_y = d_y;
  back.x = x;
  back.scale = scale;
  back.rstd = rstd;
  back.d_scale = d_scale;
  back.d_shift = d_shift;
  modulated_rms_norm_backward(context_, desc, back);
  const float of_scale[] = {102, 96, 110, 88}, of_shift[] = {102, 104, 110, 112};
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(d_scale.floats()[i], of_scale[i], 1e-4) << i;
    EXPECT_NEAR(d_shift.floats()[i], of_shift[i], 1e-4) << i;
  }

  Owned three(LIGERDSL_F32, {3, 2});
  args.scale = args.shift = three;
  ModulatedRmsNormForwardDesc forward = modulated_rms_norm_forward_desc();
  expect_failure(ligerdsl_modulated_rms_norm_forward(context_.get(), &forward, &args, nullptr),
                 LIGERDSL_INVALID_SHAPE, {"`x`", "a multiple of n_modulations = 3", "got 4"});
  Owned bf16(LIGERDSL_BF16, {2, 2});
  back.d_shift = bf16;
  desc = modulated_rms_norm_backward_desc();
  expect_failure(ligerdsl_modulated_rms_norm_backward(context_.get(), &desc, &back, nullptr),
                 LIGERDSL_INVALID_DTYPE, {"`d_shift_dtype`", "expected f32, got bf16"});
}

// Each of two groups is one channel with two positions, so normalised values are -1 and 1. Covers a
// gap between batches, and invalid shapes.
TEST_F(Norms, GroupNorm) {
  Owned x(LIGERDSL_F32, {2, 2, 2}, {6, 2, 1}), y(LIGERDSL_F32, {2, 2, 2}),
      weight(LIGERDSL_F32, {2}), bias(LIGERDSL_F32, {2}), mean(LIGERDSL_F32, {2, 2}),
      rstd(LIGERDSL_F32, {2, 2});
  const float rows[] = {1, 3, -5, 5, 0, 2, 10, 30}, w[] = {10, 100}, b[] = {1, 2};
  for (int i = 0; i < 8; ++i) x.floats()[i + i / 4 * 2] = rows[i];
  std::copy_n(w, 2, weight.floats());
  std::copy_n(b, 2, bias.floats());
  GroupNormForwardArgs args = group_norm_forward_args();
  args.x = x;
  args.weight = weight;
  args.bias = bias;
  args.y = y;
  args.mean = mean;
  args.rstd = rstd;
  GroupNormForwardDesc desc = group_norm_forward_desc();
  group_norm_forward(context_, desc, args);
  const float values[] = {-9, 11, -98, 102, -9, 11, -98, 102}, means[] = {2, 0, 1, 20},
              stds[] = {1, 5, 1, 10};
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(y.floats()[i], values[i], 1e-3) << i;
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(mean.floats()[i], means[i], 1e-6) << i;
    EXPECT_NEAR(rstd.floats()[i], 1 / stds[i], 1e-5) << i;
  }

  // In a group of two elements, d_x is 0 except for eps. d_weight is the sum of d_y * n.
  Owned d_y(LIGERDSL_F32, {2, 2, 2}), d_weight(LIGERDSL_F32, {2}), d_bias(LIGERDSL_F32, {2});
  for (int i = 0; i < 8; ++i) d_y.floats()[i] = static_cast<float>(i);
  d_weight.floats()[0] = d_weight.floats()[1] = d_bias.floats()[0] = d_bias.floats()[1] = 5;
  GroupNormBackwardDesc of = group_norm_backward_desc();
  of.accumulate = 1;
  GroupNormBackwardArgs back = group_norm_backward_args();
  back.d_y = back.d_x = d_y;
  back.x = x;
  back.weight = weight;
  back.mean = mean;
  back.rstd = rstd;
  back.d_weight = d_weight;
  back.d_bias = d_bias;
  group_norm_backward(context_, of, back);
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(d_y.floats()[i], 0, 1e-3) << i;
  const float d_w[] = {7, 7}, d_b[] = {5 + 10, 5 + 18};
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(d_weight.floats()[i], d_w[i], 1e-4) << i;
    EXPECT_NEAR(d_bias.floats()[i], d_b[i], 1e-5) << i;
  }

  args.mean = args.rstd = nullptr;
  desc.n_groups = 3;
  desc.n_channels = 2;
  expect_failure(ligerdsl_group_norm_forward(context_.get(), &desc, &args, nullptr),
                 LIGERDSL_INVALID_SHAPE, {"`n_groups`", "a divisor of n_channels = 2", "got 3"});
  desc = group_norm_forward_desc();
  desc.n_groups = 2;
  Owned strided(LIGERDSL_F32, {2, 2, 2}, {8, 4, 1});
  args.x = strided;
  expect_failure(ligerdsl_group_norm_forward(context_.get(), &desc, &args, nullptr),
                 LIGERDSL_INVALID_SHAPE,
                 {"`x`", "expected contiguous channels, with a stride of 2", "got 4"});
}

}  // namespace
}  // namespace ligerdsl::test::norms_test
