// Execution of row operations: slices, in-place calls, added gradients, one mask for both passes.
#include <cmath>
#include <numeric>

#include "execute.h"

namespace ligerdsl::test::execute_rows_test {
namespace {

// In the one-call form, causal softmax reads the number of queries from the second-to-last
// dimension.
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

// Rotates q and k in place in the buffer of a fused projection:
// [position, q heads | k heads | v heads, column].
TEST_F(Execute, RopeInPlaceOnSlicesOfOneBuffer) {
  constexpr int64_t kS = 5, kA = 3, kK = 1, kD = 4, kRow = (kA + 2 * kK) * kD;
  Owned qkv(LIGERDSL_F32, {kS, kRow}), cos(LIGERDSL_F32, {kS, kD}), sin(LIGERDSL_F32, {kS, kD});
  for (int64_t i = 0; i < kS * kRow; ++i) qkv.floats()[i] = static_cast<float>(i);
  for (int64_t i = 0; i < kS * kD; ++i)
    sin.floats()[i] = 1;  // rotates by 90 degrees: (a, b) -> (-b, a)
  const Tensor q(qkv.floats(), context_.device(), LIGERDSL_F32, {1, kS, kA, kD},
                 {kS * kRow, kRow, kD, 1});
  const Tensor k(qkv.floats() + kA * kD, context_.device(), LIGERDSL_F32, {1, kS, kK, kD},
                 {kS * kRow, kRow, kD, 1});
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

// Rotates adjacent pairs by 90 degrees, (a, b) -> (-b, a), in the first two columns and copies the
// other columns. The table holds complex numbers.
TEST_F(Execute, RopeRotatesAdjacentPairsByComplexNumbers) {
  constexpr int64_t kS = 3, kA = 2, kD = 5;
  Owned q(LIGERDSL_F32, {1, kS, kA, kD}), out(LIGERDSL_F32, {1, kS, kA, kD}),
      table(LIGERDSL_F32, {kS, 2});
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
    const int64_t column = i % kD, from = static_cast<int64_t>(i) + (column == 0   ? 1
                                                                     : column == 1 ? -1
                                                                                   : 0);
    const float expected = static_cast<float>(from + 1) * (column == 0 ? -1 : 1);
    ASSERT_EQ(out.floats()[i], expected) << i;
  }
  args.sin = table;
  expect_failure(ligerdsl_rope(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_ARGUMENT,
                 {"sin"});
  desc.head_dim = 65537;
  expect_failure(ligerdsl_rope(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE,
                 {"head_dim", "65536"});
  desc.head_dim = 0;
  args.sin = nullptr;
  desc.rotary_dim = 4;
  expect_failure(ligerdsl_rope(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE,
                 {"`cos`", "D >= 4"});
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

// Gate and up, passed as two slices of one buffer, give the same results as the buffer passed as
// gate_up.
TEST_F(Execute, SwigluSlicesAreTheFusedLayout) {
  constexpr int64_t kRows = 6, kF = 9;
  Owned both(LIGERDSL_F32, {kRows, 2 * kF}), fused(LIGERDSL_F32, {kRows, kF}),
      separate(LIGERDSL_F32, {kRows, kF});
  for (int64_t i = 0; i < kRows * 2 * kF; ++i)
    both.floats()[i] = 0.25f * static_cast<float>(i % 23) - 2.0f;
  const Tensor gate(both.floats(), context_.device(), LIGERDSL_F32, {kRows, kF}, {2 * kF, 1});
  const Tensor up(both.floats() + kF, context_.device(), LIGERDSL_F32, {kRows, kF}, {2 * kF, 1});
  SwigluForwardArgs args = swiglu_forward_args();
  args.gate_up = both;
  args.out = fused;
  swiglu_forward(context_, swiglu_forward_desc(), args);
  args = swiglu_forward_args();
  args.gate = gate;
  args.up = up;
  args.out = separate;
  swiglu_forward(context_, swiglu_forward_desc(), args);
  const double g = both.floats()[0], expected = g / (1 + std::exp(-g)) * both.floats()[kF];
  EXPECT_NEAR(fused.floats()[0], expected, 1e-6);
  for (int64_t i = 0; i < kRows * kF; ++i) ASSERT_EQ(fused.floats()[i], separate.floats()[i]) << i;
}

TEST_F(Execute, GegluInPlaceOfTheFusedLayout) {
  constexpr int64_t kRows = 4, kF = 5;
  Owned both(LIGERDSL_F32, {kRows, 2 * kF}), out(LIGERDSL_F32, {kRows, kF}),
      d_out(LIGERDSL_F32, {kRows, kF});
  for (int64_t i = 0; i < kRows * 2 * kF; ++i)
    both.floats()[i] = 0.25f * static_cast<float>(i % 17) - 2.0f;
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

// Applies ReLU in place to five columns of rows of seven. The gradient of squared ReLU is added to
// the old values of d_x.
TEST_F(Execute, ActivationsAcceptSlicesAndAddGradients) {
  constexpr int64_t kRows = 3, kF = 5, kStride = 7;
  Owned all(LIGERDSL_F32, {kRows, kStride}), d_y(LIGERDSL_F32, {kRows, kF}),
      d_x(LIGERDSL_F32, {kRows, kF});
  for (int64_t i = 0; i < kRows * kStride; ++i)
    all.floats()[i] = 0.5f * static_cast<float>(i % 9) - 2.0f;
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
  Owned x(LIGERDSL_F32, {1, 4}), w(LIGERDSL_F32, {4}), b(LIGERDSL_F32, {4}),
      y(LIGERDSL_F32, {1, 4});
  Owned mean(LIGERDSL_F32, {1}), rstd(LIGERDSL_F32, {1}), d_y(LIGERDSL_F32, {1, 4}),
      d_bias(LIGERDSL_F32, {4});
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

  std::fill_n(d_y.floats(), 4, 3.0f);  // a constant gradient gives d_x = 0
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

// A NULL tensor is omitted: the bias in the forward, and d_weight or d_bias in the backward.
TEST_F(Execute, LayerNormWithoutBiasAndWithOneGradient) {
  Owned x(LIGERDSL_F32, {1, 4}), w(LIGERDSL_F32, {4}), y(LIGERDSL_F32, {1, 4}),
      d_x(LIGERDSL_F32, {1, 4});
  Owned mean(LIGERDSL_F32, {1}), rstd(LIGERDSL_F32, {1}), d_y(LIGERDSL_F32, {1, 4}),
      gradient(LIGERDSL_F32, {4});
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
  expect_failure(ligerdsl_layer_norm_forward(context_.get(), &forward, &args, nullptr),
                 LIGERDSL_INVALID_DTYPE, {"bias"});
}

// y overwrites x. The gradient is added to the old values of d_bias.
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

// The backward pass generates the same mask as the forward pass. Seed and a part of the offset are
// read from memory. Another offset gives another mask.
TEST_F(Execute, DropoutBackwardDrawsTheForwardMask) {
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

}  // namespace
}  // namespace ligerdsl::test::execute_rows_test
