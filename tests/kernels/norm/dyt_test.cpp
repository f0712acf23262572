#include "kernels/norm/dyt.h"

#include <cmath>

#include "tests/kernels/shapes.h"
#include "tests/support/reference_call.h"

namespace ligerdsl::test::dyt_test {
namespace {

using kernels::DytOptions;

struct Trial {
  DytOptions o;
  int64_t n;
  Tensor x, y, alpha, weight, bias, d_y, d_x, d_alpha, d_weight, d_bias;

  Trial(const DytOptions& o, int64_t n, int64_t gap = 0, double scale = 1) : o(o), n(n) {
    x = random_rows(o.type, n, o.cols, 1, gap, scale);
    y = Tensor::rows(o.type, n, o.cols, gap);
    // d_y is x plus noise, so that the terms of d_alpha do not cancel.
    Values up = Random(2).normals(n * o.cols);
    for (int64_t i = 0; i < x.size(); ++i) up[i] += x.get(i);
    d_y = Tensor::rows(o.type, n, o.cols, gap).fill(up);
    d_x = Tensor::rows(o.type, n, o.cols, gap);
    alpha = random_vector(o.weight_type, 1, 3, 0.1, 0.5);
    weight = random_vector(o.weight_type, o.cols, 4, 0.3, 1.0);
    bias = random_vector(o.weight_type, o.cols, 5);
    d_alpha = random_vector(o.d_weight_type, 1, 6);
    d_weight = random_vector(o.d_weight_type, o.cols, 7);
    d_bias = random_vector(o.d_weight_type, o.cols, 8);
  }
  Arguments common() const {
    return Arguments().tensor("x", x).tensor("alpha", alpha).tensor("weight", weight);
  }
  void forward(const Tensor& to) {
    backend().run(kernels::dyt_forward(machine(), o), n,
                  common().tensor("bias", bias).tensor("y", to));
  }
  void backward(const Tensor& to) {
    backend().run(kernels::dyt_backward(machine(), o), n,
                  common()
                      .tensor("d_y", d_y)
                      .tensor("d_x", to)
                      .tensor("d_alpha", d_alpha)
                      .tensor("d_weight", d_weight)
                      .tensor("d_bias", d_bias));
  }
  // Compares `is` with `sums` (added to `before` if the call accumulates) if they are wanted.
  // Otherwise checks that `is` still has the bits of `before`.
  void check_sums(const char* name, const Tensor& is, const Tensor& before, bool wanted,
                  Values sums) const {
    if (!wanted) {
      EXPECT_TRUE(is.same_bits(before)) << name;
      return;
    }
    for (int64_t j = 0; o.accumulate && j < before.size(); ++j) sums[j] += before.get(j);
    EXPECT_TRUE(
        close_normwise(is.values(), sums, gate_r(o.d_weight_type, n) * backend().summation_slack()))
        << name;
  }
  void check() {
    SCOPED_TRACE(std::string(name(o.type)) + " weight " + name(o.weight_type) +
                 " n=" + std::to_string(n) + " h=" + std::to_string(o.cols));
    forward(y);
    const auto expected = expected_of("dyt_forward", {},
                                      {{"x", x.values()},
                                       {"alpha", alpha.values()},
                                       {"weight", weight.values()},
                                       {"bias", o.without_bias ? Values() : bias.values()}});
    EXPECT_TRUE(close(y.values(), expected.at("y"), gate_e(o.type))) << "y";
    const Tensor nothing = d_x.clone(), alpha_before = d_alpha.clone(),
                 weight_before = d_weight.clone(), bias_before = d_bias.clone();
    backward(d_x);
    const auto g = expected_of("dyt_backward", {},
                               {{"d_y", d_y.values()},
                                {"x", x.values()},
                                {"alpha", alpha.values()},
                                {"weight", weight.values()}},
                               {"d_alpha", "d_weight", "d_bias"});
    if (o.without_d_x)
      EXPECT_TRUE(d_x.same_bits(nothing)) << "d_x";
    else
      EXPECT_TRUE(close(d_x.values(), g.at("d_x"), gate_e(o.type))) << "d_x";
    check_sums("d_alpha", d_alpha, alpha_before, o.want_d_alpha, g.at("d_alpha"));
    check_sums("d_weight", d_weight, weight_before, o.want_d_weight, g.at("d_weight"));
    check_sums("d_bias", d_bias, bias_before, o.want_d_bias, g.at("d_bias"));
    for (const Tensor& t : {y, d_x, d_alpha, d_weight, d_bias, d_y})
      EXPECT_TRUE(t.untouched_outside());
  }
};

DytOptions options_of(int64_t cols, DType type) {
  return {.cols = cols, .type = type, .weight_type = type};
}

TEST(Dyt, WidthsAndTypes) {
  int64_t number = 0;
  for (const auto& [h, type] :
       values_and_types(affordable({1, 7, 64, 123, 1024, 4097, 33000, 131072}, 3), kFloats))
    Trial(options_of(h, type), 3, gap_of(number++)).check();
}

TEST(Dyt, AnyNumberOfRows) {
  for_any_number_of_rows(
      [](DType type, int64_t n, int64_t h) { Trial(options_of(h, type), n).check(); });
}

TEST(Dyt, ManyRows) {
  for (int64_t h : {1, 40, 300}) {
    const int64_t n = std::min<int64_t>(5003, backend().budget() / h);
    Trial(options_of(h, bf16), n).check();
    Trial(options_of(h, f32), n, 3).check();
  }
}

// Requests all combinations of gradients.
TEST(Dyt, Parameters) {
  for (DType type : {bf16, f32}) {
    for (int set = 0; set < 16; ++set) {
      DytOptions o = options_of(200, type);
      o.want_d_alpha = set & 1;
      o.want_d_weight = set & 2;
      o.want_d_bias = set & 4;
      o.without_d_x = set & 8;
      if (o.sums() == 0 && o.without_d_x) continue;
      o.weight_type = o.want_d_bias ? type : f32;
      o.d_weight_type = o.without_d_x ? o.weight_type : f32;
      o.accumulate = o.d_weight_type == f32;
      o.without_bias = !o.want_d_bias;
      Trial(o, 37, 8).check();
    }
  }
}

// Cases: tanh close to its argument, close to 1, and on both sides of its change of formula;
// infinities.
TEST(Dyt, Magnitudes) {
  for (double scale : {1e-6, 1e-3, 0.125, 10.0, 1e4}) {
    for (DType type : {f32, bf16}) Trial(options_of(300, type), 4, 0, scale).check();
  }
  Trial run(options_of(64, f32), 1);
  for (int64_t i = 0; i < 64; ++i) run.x.set(i, std::ldexp(i % 2 ? -1.0 : 1.0, i - 40));
  run.x.set(62, INFINITY);
  run.x.set(63, -INFINITY);
  run.o.without_bias = true;
  run.forward(run.y);
  for (int64_t i = 0; i < 64; ++i) {
    const double right = run.weight.get(i) * std::tanh(run.alpha.get(0) * run.x.get(i));
    EXPECT_NEAR(run.y.get(i), right, 1e-5 * std::fabs(right)) << i;
  }
}

TEST(Dyt, NoRows) {
  Trial run(options_of(64, f32), 0);
  run.backward(run.d_x);
  for (const Tensor& t : {run.d_alpha, run.d_weight, run.d_bias})
    for (double value : t.values()) EXPECT_EQ(value, 0.0);
}

TEST(Dyt, InPlaceAndRepeatedRunsAreBitEqual) {
  for (DType type : kFloats) {
    Trial separate(options_of(333, type), 45, 8), over(options_of(333, type), 45, 8);
    separate.backward(separate.d_x);
    over.backward(over.d_y);
    EXPECT_TRUE(over.d_y.same_bits(separate.d_x)) << name(type);
    EXPECT_TRUE(over.d_alpha.same_bits(separate.d_alpha) &&
                over.d_weight.same_bits(separate.d_weight) &&
                over.d_bias.same_bits(separate.d_bias))
        << name(type);
    separate.forward(separate.y);
    over.forward(over.x);
    EXPECT_TRUE(over.x.same_bits(separate.y)) << name(type);
  }
}

// A NaN affects only its element and its column sums. tanh is flat at infinity.
TEST(Dyt, NotFinite) {
  for (DType type : kFloats) {
    Trial run(options_of(40, type), 6);
    run.x.set(45, NAN);
    run.x.set(47, INFINITY);
    run.x.set(89, -INFINITY);
    run.forward(run.y);
    run.backward(run.d_x);
    for (int64_t i = 0; i < 240; ++i) {
      ASSERT_EQ(std::isfinite(run.y.get(i)), i != 45) << name(type) << " " << i;
      ASSERT_EQ(std::isfinite(run.d_x.get(i)), i != 45) << name(type) << " " << i;
    }
    EXPECT_NEAR(run.y.get(47), run.bias.get(7) + run.weight.get(7), 0.02) << name(type);
    EXPECT_NEAR(run.y.get(89), run.bias.get(9) - run.weight.get(9), 0.02) << name(type);
    EXPECT_EQ(run.d_x.get(47), 0) << name(type);
    EXPECT_TRUE(std::isnan(run.d_alpha.get(0))) << name(type);
    for (int64_t j = 0; j < 40; ++j) {
      ASSERT_EQ(std::isfinite(run.d_weight.get(j)), j != 5) << name(type) << " " << j;
      ASSERT_TRUE(std::isfinite(run.d_bias.get(j))) << name(type) << " " << j;
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::dyt_test
