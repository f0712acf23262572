// Compares gradients of the float64 formulas with central differences of their forward passes.
#include "oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "random.h"

namespace train {
namespace {

using oracle::Array;
using oracle::View;

Array draw(size_t count, uint64_t seed, double mean = 0) {
  Array out(count);
  for (size_t i = 0; i < count; ++i) out[i] = mean + random_normal(seed, i);
  return out;
}

double dot(View a, View b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Expects that `gradient` is the slope of the scalar `f` at every element of x, which f reads.
template <class Function>
void expect_slope(Array& x, View gradient, Function f, const char* what) {
  ASSERT_EQ(x.size(), gradient.size()) << what;
  for (size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i], h = 1e-5;
    x[i] = kept + h;
    double above = f();
    x[i] = kept - h;
    double below = f();
    x[i] = kept;
    double slope = (above - below) / (2 * h);
    EXPECT_NEAR(gradient[i], slope, 1e-8 + 1e-6 * std::abs(slope)) << what << " element " << i;
  }
}

TEST(Oracle, LayerNorm) {
  Array x = draw(15, 1, 3), w = draw(5, 2, 1), b = draw(5, 3), dy = draw(15, 4);
  oracle::LayerNorm norm = oracle::layer_norm(x, w, b, 1e-3);
  oracle::LayerNormGradients g = oracle::layer_norm_backward(dy, x, w, norm.mean, norm.rstd);
  auto f = [&] { return dot(dy, oracle::layer_norm(x, w, b, 1e-3).y); };
  expect_slope(x, g.dx, f, "x");
  expect_slope(w, g.dw, f, "weight");
  expect_slope(b, g.db, f, "bias");
  EXPECT_NEAR(norm.mean[0], (x[0] + x[1] + x[2] + x[3] + x[4]) / 5, 1e-12);
}

TEST(Oracle, ModulatedRmsNorm) {
  Array x = draw(20, 41), w = draw(5, 42, 1), scale = draw(10, 43), shift = draw(10, 44), dy = draw(20, 45);
  const oracle::Norm norm = oracle::modulated_rms_norm(x, w, scale, shift, 1e-3);
  const oracle::ModulatedNormGradients g = oracle::modulated_rms_norm_backward(dy, x, w, scale, norm.rstd);
  auto f = [&] { return dot(dy, oracle::modulated_rms_norm(x, w, scale, shift, 1e-3).y); };
  expect_slope(x, g.dx, f, "x");
  expect_slope(w, g.dw, f, "weight");
  expect_slope(scale, g.dscale, f, "scale");
  expect_slope(shift, g.dshift, f, "shift");
}

TEST(Oracle, GroupNorm) {
  Array x = draw(24, 31), w = draw(4, 32, 1), b = draw(4, 33), dy = draw(24, 34);
  const oracle::LayerNorm norm = oracle::group_norm(x, 3, 2, w, b, 1e-3);
  const oracle::LayerNormGradients g = oracle::group_norm_backward(dy, x, 3, 2, w, norm.mean, norm.rstd);
  auto f = [&] { return dot(dy, oracle::group_norm(x, 3, 2, w, b, 1e-3).y); };
  expect_slope(x, g.dx, f, "x");
  expect_slope(w, g.dw, f, "weight");
  expect_slope(b, g.db, f, "bias");
  EXPECT_NEAR(norm.mean[1], (x[6] + x[7] + x[8] + x[9] + x[10] + x[11]) / 6, 1e-12);
}

TEST(Oracle, PolyNorm) {
  Array x = draw(15, 21), w = draw(3, 22, 1), b = draw(1, 23), dy = draw(15, 24);
  const oracle::PolyNorm norm = oracle::poly_norm(x, 5, w, b[0], 1e-3);
  const oracle::LayerNormGradients g = oracle::poly_norm_backward(dy, x, 5, w, norm.rstd);
  auto f = [&] { return dot(dy, oracle::poly_norm(x, 5, w, b[0], 1e-3).y); };
  expect_slope(x, g.dx, f, "x");
  expect_slope(w, g.dw, f, "weight");
  expect_slope(b, g.db, f, "bias");
  // If all elements are equal, every normalised power is 1.
  EXPECT_NEAR(oracle::poly_norm(Array{2, 2}, 2, Array{1, 2, 4}, 0.5, 0).y[0], 7.5, 1e-12);
}

TEST(Oracle, Dyt) {
  Array x = draw(15, 25), a{0.7}, w = draw(5, 26, 1), b = draw(5, 27), dy = draw(15, 28);
  const oracle::DytGradients g = oracle::dyt_backward(dy, x, a[0], w);
  auto f = [&] { return dot(dy, oracle::dyt(x, a[0], w, b)); };
  expect_slope(x, g.dx, f, "x");
  expect_slope(a, Array{g.da}, f, "alpha");
  expect_slope(w, g.dw, f, "weight");
  expect_slope(b, g.db, f, "bias");
  EXPECT_NEAR(oracle::dyt(Array{2}, 0.5, Array{3}, Array{1})[0], 1 + 3 * std::tanh(1.0), 1e-12);
}

TEST(Oracle, Activations) {
  for (auto f : {oracle::silu, oracle::gelu, oracle::gelu_erf, oracle::relu, oracle::relu_squared}) {
    for (double u : {-2.5, -0.3, 0.4, 3.0}) {
      constexpr double h = 1e-5;
      EXPECT_NEAR(f(u).slope, (f(u + h).value - f(u - h).value) / (2 * h), 1e-8) << u;
    }
  }
  EXPECT_NEAR(oracle::gelu_erf(1).value, 0.8413447460685429, 1e-12);
}

// The first words of the published vector of counter 0 and key 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
TEST(Oracle, DropoutMask) {
  for (auto [p, mask] :
       {std::pair<double, Array>{0.39, {1, 1, 1, 1}}, {0.5, {0, 1, 1, 1}}, {0.7, {0, 1, 1, 0}}, {0.9, {0, 0, 0, 0}}})
    EXPECT_EQ(oracle::dropout_mask(4, p, 0, 0), mask) << p;
}

TEST(Oracle, GatedActivations) {
  Array gate_up = draw(16, 5), dout = draw(8, 6);
  expect_slope(
      gate_up, oracle::geglu_backward(dout, gate_up, 4), [&] { return dot(dout, oracle::geglu(gate_up, 4)); }, "geglu");
  expect_slope(
      gate_up, oracle::swiglu_backward(dout, gate_up, 4), [&] { return dot(dout, oracle::swiglu(gate_up, 4)); },
      "swiglu");
  // gelu(1) = 0.8411920, silu(1) = 0.7310586.
  EXPECT_NEAR(oracle::geglu(Array{1, 2}, 1)[0], 2 * 0.8411919906082768, 1e-12);
  EXPECT_NEAR(oracle::swiglu(Array{1, 2}, 1)[0], 2 * 0.7310585786300049, 1e-12);
}

TEST(Oracle, Attention) {
  const oracle::Heads heads{.batch = 2, .tokens = 4, .heads = 4, .kv_heads = 2, .head_dim = 3, .scale = 0.6};
  Array q = draw(96, 51), k = draw(48, 52), v = draw(48, 53), dy = draw(96, 54);
  const oracle::AttentionGradients g = oracle::attention_backward(dy, q, k, v, heads);
  auto f = [&] { return dot(dy, oracle::attention(q, k, v, heads).o); };
  expect_slope(q, g.dq, f, "q");
  expect_slope(k, g.dk, f, "k");
  expect_slope(v, g.dv, f, "v");
  // The first token sees only itself.
  EXPECT_NEAR(oracle::attention(q, k, v, heads).o[1], v[1], 1e-12);
  EXPECT_NEAR(oracle::attention(q, k, v, heads).lse[0], 0.6 * dot(View(q).first(3), View(k).first(3)), 1e-12);
}

TEST(Oracle, Softmax) {
  Array x = draw(9, 7), dy = draw(9, 8);
  Array y = oracle::softmax(x, 3, 0.5), causal = oracle::causal_softmax(x, 3, 0.5);
  expect_slope(
      x, oracle::softmax_backward(dy, y, 3, 0.5), [&] { return dot(dy, oracle::softmax(x, 3, 0.5)); }, "softmax");
  expect_slope(
      x, oracle::causal_softmax_backward(dy, causal, 3, 0.5),
      [&] { return dot(dy, oracle::causal_softmax(x, 3, 0.5)); }, "causal");
  EXPECT_NEAR(y[3] + y[4] + y[5], 1, 1e-12);
  EXPECT_EQ(causal[5], 0);
}

TEST(Oracle, Sparsemax) {
  Array x = draw(9, 7), dy = draw(9, 8);
  const Array y = oracle::sparsemax(x, 3);
  expect_slope(
      x, oracle::sparsemax_backward(dy, y, 3), [&] { return dot(dy, oracle::sparsemax(x, 3)); }, "sparsemax");
  EXPECT_NEAR(y[3] + y[4] + y[5], 1, 1e-12);
  EXPECT_NEAR(oracle::sparsemax(Array{3, 2.5, -4}, 3)[0], 0.75, 1e-12);
}

TEST(Oracle, RotationsMatchEveryLayout) {
  for (bool interleaved : {false, true}) {
    // Two positions of one head of six columns, of which four rotate: pair 0 by 90 degrees, pair 1
    // not.
    oracle::Rotation r{1, 6, 4, interleaved,
                       [](int64_t position, int64_t pair) { return pair == 0 ? position * std::acos(-1.0) / 2 : 0.0; }};
    Array x = {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}, y = x;
    oracle::rotate(y, 1, 2, 6, r, 1);
    Array expected =
        interleaved ? Array{1, 2, 3, 4, 5, 6, -2, 1, 3, 4, 5, 6} : Array{1, 2, 3, 4, 5, 6, -3, 2, 1, 4, 5, 6};
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-12) << interleaved << " " << i;
    oracle::rotate(y, 1, 2, 6, r, -1);
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], x[i], 1e-12) << interleaved << " back " << i;
  }
}

TEST(Oracle, CrossEntropyMatchesWithEveryOption) {
  Array x = draw(12, 9), w = draw(15, 10), b = draw(5, 11);
  const std::vector<int64_t> labels = {4, 0, 2, 4};
  oracle::LossSettings s{0.1, 0.05, 2, 2, {0.5, 1, 2, 0.25, 3}, 1.5, {0.5, -1, 3, 2}};
  oracle::LinearLoss all = oracle::linear_cross_entropy(x, w, b, labels, s);
  const auto total = [&](const oracle::Loss& loss) { return loss.loss + dot(s.d_entropy, loss.entropy); };
  auto f = [&] { return total(oracle::linear_cross_entropy(x, w, b, labels, s).loss); };
  expect_slope(x, all.dx, f, "x");
  expect_slope(w, all.dw, f, "weight");
  expect_slope(b, all.db, f, "bias");

  Array logits = draw(20, 12);
  oracle::Loss loss = oracle::cross_entropy(logits, labels, 5, s);
  expect_slope(
      logits, loss.dlogits, [&] { return total(oracle::cross_entropy(logits, labels, 5, s)); }, "logits");
  EXPECT_EQ(loss.predictions[2], -1) << "the third label is ignored";
  EXPECT_EQ(loss.lse[2], 0);
  EXPECT_EQ(oracle::target_counts(labels, s), (Array{1 / 3.0, 1 / 6.5, 6.75, 3}));
}

// Two rows by hand: log(1 + e) for a miss by one, log(1 + 1/e) for a hit.
TEST(Oracle, CrossEntropyMatchesHandComputedRows) {
  oracle::Loss loss = oracle::cross_entropy(Array{0, 1, 0, 1}, std::vector<int64_t>{0, 1}, 2);
  EXPECT_NEAR(loss.loss, (std::log(1 + std::exp(1.0)) + std::log(1 + std::exp(-1.0))) / 2, 1e-12);
  EXPECT_EQ(loss.accuracy, 0.5);
  const double p = 1 / (1 + std::exp(1.0));
  EXPECT_NEAR(loss.entropy[0], -p * std::log(p) - (1 - p) * std::log(1 - p), 1e-12);
  EXPECT_EQ(loss.predictions, (Array{1, 1}));
}

// Two shards of three classes determine a row's loss.
TEST(Oracle, ShardPartials) {
  const Array x{0.5, -1, 2, 7, 7, 7};
  const std::vector<int64_t> labels{1, 9};
  const Array a = oracle::shard_partials(x, labels, 3, 0, 2, 9), b = oracle::shard_partials(x, labels, 3, 2, 1, 9);
  const double total = a[1] * std::exp(a[0]) + b[1] * std::exp(b[0]) + std::exp(a[2] + b[2]);
  EXPECT_NEAR(std::log(total) - x[1], oracle::cross_entropy(View(x).first(3), std::vector<int64_t>{1}, 3).loss, 1e-12);
  EXPECT_NEAR(a[3] + a[4] * a[0] + b[3] + b[4] * b[0], 1.5, 1e-12) << "the sum of the logits";
  EXPECT_EQ(Array(a.begin() + 5, a.end()), Array(5, 0.0)) << "the second label is ignored";
}

TEST(Oracle, Divergences) {
  const auto jsd = [](double x, double y) { return oracle::jsd(x, y, 0.3); };
  for (double x : {-2.5, -0.4}) {
    for (double y : {0.2, 0.7}) {
      constexpr double h = 1e-5;
      for (const std::function<oracle::Divergence(double, double)>& f :
           {std::function<oracle::Divergence(double, double)>(oracle::kl_div), {oracle::tvd}, {jsd}}) {
        EXPECT_NEAR(f(x, y).slope, (f(x + h, y).value - f(x - h, y).value) / (2 * h), 1e-8) << x << " " << y;
      }
    }
  }
  const double nat = std::log(2.0);  // for two coins with one side each
  EXPECT_NEAR(oracle::kl_div(-nat, 1).value, nat, 1e-12);
  EXPECT_NEAR(oracle::jsd(0, -1e3, 0.5).value, nat / 2, 1e-12);
  EXPECT_EQ(oracle::tvd(0.25, 1).value, 0.375);
}

// Uses differences of the loss. One class, or equal heads, give 0.
TEST(Oracle, LinearJsd) {
  const Array x{0.3, -1, 0.7, 0.2}, y{1, 0.5, -0.4}, u{0.1, -0.3, 0.8};
  Array w{0.5, -0.2, 0.9, 0.4, -0.6, 0.1};
  const auto at = [&](const Array& x, const Array& w) {
    return oracle::linear_jsd(x, w, Array{1, 0.5}, u, 2, 3, 0.3, 2);
  };
  const oracle::LinearJsd all = at(x, w);
  constexpr double h = 1e-5;
  for (size_t i = 0; i < x.size(); ++i) {
    Array more = x, less = x;
    more[i] += h, less[i] -= h;
    EXPECT_NEAR(all.dx[i], (at(more, w).loss - at(less, w).loss) / (2 * h), 1e-8) << i;
  }
  for (size_t i = 0; i < w.size(); ++i) {
    Array more = w, less = w;
    more[i] += h, less[i] -= h;
    EXPECT_NEAR(all.dw[i], (at(x, more).loss - at(x, less).loss) / (2 * h), 1e-8) << i;
  }
  EXPECT_NEAR(oracle::linear_jsd(x, w, x, w, 2, 3, 0.3, 1).loss, 0, 1e-12);
}

}  // namespace
}  // namespace train
