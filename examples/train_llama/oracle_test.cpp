// Compares gradients of the float64 formulas with central differences of their forward passes.
#include "oracle.h"

#include <gtest/gtest.h>

#include <cmath>

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

TEST(Oracle, Silu) {
  for (double u : {-2.5, -0.3, 0.4, 3.0}) {
    constexpr double h = 1e-5;
    EXPECT_NEAR(oracle::silu(u).slope,
                (oracle::silu(u + h).value - oracle::silu(u - h).value) / (2 * h), 1e-8)
        << u;
  }
}

TEST(Oracle, Swiglu) {
  Array gate_up = draw(16, 5), dout = draw(8, 6);
  expect_slope(
      gate_up, oracle::swiglu_backward(dout, gate_up, 4),
      [&] { return dot(dout, oracle::swiglu(gate_up, 4)); }, "swiglu");
  // silu(1) = 0.7310586.
  EXPECT_NEAR(oracle::swiglu(Array{1, 2}, 1)[0], 2 * 0.7310585786300049, 1e-12);
}

TEST(Oracle, Attention) {
  const oracle::Heads heads{
      .batch = 2, .tokens = 4, .heads = 4, .kv_heads = 2, .head_dim = 3, .scale = 0.6};
  Array q = draw(96, 51), k = draw(48, 52), v = draw(48, 53), dy = draw(96, 54);
  const oracle::AttentionGradients g = oracle::attention_backward(dy, q, k, v, heads);
  auto f = [&] { return dot(dy, oracle::attention(q, k, v, heads).o); };
  expect_slope(q, g.dq, f, "q");
  expect_slope(k, g.dk, f, "k");
  expect_slope(v, g.dv, f, "v");
  // The first token sees only itself.
  EXPECT_NEAR(oracle::attention(q, k, v, heads).o[1], v[1], 1e-12);
  EXPECT_NEAR(oracle::attention(q, k, v, heads).lse[0],
              0.6 * dot(View(q).first(3), View(k).first(3)), 1e-12);
}

TEST(Oracle, CausalSoftmax) {
  Array x = draw(9, 7), dy = draw(9, 8);
  const Array causal = oracle::causal_softmax(x, 3, 0.5);
  expect_slope(
      x, oracle::causal_softmax_backward(dy, causal, 3, 0.5),
      [&] { return dot(dy, oracle::causal_softmax(x, 3, 0.5)); }, "causal");
  EXPECT_NEAR(causal[3] + causal[4], 1, 1e-12);
  EXPECT_EQ(causal[5], 0);
}

TEST(Oracle, RotationsMatchEveryLayout) {
  for (bool interleaved : {false, true}) {
    // Two positions of one head with six columns, four of which rotate. At position 1, pair 0
    // rotates by 90 degrees and pair 1 by 0.
    oracle::Rotation r{1, 6, 4, interleaved, [](int64_t position, int64_t pair) {
                         return pair == 0 ? position * std::acos(-1.0) / 2 : 0.0;
                       }};
    Array x = {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}, y = x;
    oracle::rotate(y, 1, 2, 6, r, 1);
    Array expected = interleaved ? Array{1, 2, 3, 4, 5, 6, -2, 1, 3, 4, 5, 6}
                                 : Array{1, 2, 3, 4, 5, 6, -3, 2, 1, 4, 5, 6};
    for (size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(y[i], expected[i], 1e-12) << interleaved << " " << i;
    oracle::rotate(y, 1, 2, 6, r, -1);
    for (size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(y[i], x[i], 1e-12) << interleaved << " back " << i;
  }
}

TEST(Oracle, CrossEntropyMatchesWithEveryOption) {
  Array x = draw(12, 9), w = draw(15, 10), b = draw(5, 11);
  const std::vector<int64_t> labels = {4, 0, 2, 4};
  oracle::LossSettings s{0.1, 0.05, 2, 2, {0.5, 1, 2, 0.25, 3}, 1.5, {0.5, -1, 3, 2}};
  oracle::LinearLoss all = oracle::linear_cross_entropy(x, w, b, labels, s);
  const auto total = [&](const oracle::Loss& loss) {
    return loss.loss + dot(s.d_entropy, loss.entropy);
  };
  auto f = [&] { return total(oracle::linear_cross_entropy(x, w, b, labels, s).loss); };
  expect_slope(x, all.dx, f, "x");
  expect_slope(w, all.dw, f, "weight");
  expect_slope(b, all.db, f, "bias");

  Array logits = draw(20, 12);
  oracle::Loss loss = oracle::cross_entropy(logits, labels, 5, s);
  expect_slope(
      logits, loss.dlogits, [&] { return total(oracle::cross_entropy(logits, labels, 5, s)); },
      "logits");
  EXPECT_EQ(loss.predictions[2], -1) << "the third label is ignored";
  EXPECT_EQ(loss.lse[2], 0);
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

}  // namespace
}  // namespace train
