#include "kernels/norm/poly_norm.h"

#include <algorithm>
#include <cmath>

#include "tests/kernels/shapes.h"
#include "tests/support/reference_call.h"

namespace ligerdsl::test::poly_norm_test {
namespace {

using kernels::PolyNormOptions;

constexpr double kEps = 1e-6f;

struct Trial {
  PolyNormOptions o;
  int64_t n;
  Tensor x, y, weight, bias, rstd, d_y, d_x, d_weight, d_bias;

  Trial(const PolyNormOptions& o, int64_t n, int64_t gap = 0, double scale = 1) : o(o), n(n) {
    x = random_rows(o.type, n, o.cols, 1, gap, scale);
    y = Tensor::rows(o.type, n, o.cols, gap);
    d_y = random_rows(o.type, n, o.cols, 2, gap);
    d_x = Tensor::rows(o.type, n, o.cols, gap);
    weight = random_vector(o.weight_type, 3, 3, 0.3, 0.5);
    bias = random_vector(o.weight_type, 1, 4, 1.0, 1.0);
    rstd = Tensor(f32, {n, 3});
    d_weight = random_vector(o.d_weight_type, 3, 5);
    d_bias = random_vector(o.d_weight_type, 1, 6);
  }
  Arguments common() const {
    return Arguments().tensor("weight", weight).tensor("rstd", rstd).tensor("x", x);
  }
  void forward() {
    backend().run(kernels::poly_norm_forward(machine(), o), n,
                  common().tensor("bias", bias).tensor("y", y).number("eps", kEps));
  }
  void backward(const Tensor& to) {
    backend().run(kernels::poly_norm_backward(machine(), o), n,
                  common()
                      .tensor("d_y", d_y)
                      .tensor("d_x", to)
                      .tensor("d_weight", d_weight)
                      .tensor("d_bias", d_bias));
  }
  // Returns the gradients of all four parameters.
  Values parameters() const {
    Values all = d_weight.values();
    all.push_back(d_bias.get(0));
    return all;
  }
  // The terms of d_x cancel except for eps, so the error is relative to them.
  void check_single_columns(const Values& right) const {
    for (int64_t i = 0; i < n; ++i) {
      double terms = 0;
      for (int p = 1; p <= 3; ++p)
        terms += p * std::fabs(weight.get(3 - p) * rstd.get(3 * i + 3 - p) *
                               std::pow(x.get(i), p - 1) * d_y.get(i));
      EXPECT_NEAR(d_x.get(i), right[i], gate_e(o.type).rtol * terms) << "d_x, element " << i;
    }
  }
  void check() {
    SCOPED_TRACE(std::string(name(o.type)) + " weight " + name(o.weight_type) +
                 " n=" + std::to_string(n) + " h=" + std::to_string(o.cols));
    const std::map<std::string, double> numbers = {{"N", n}, {"H", o.cols}, {"eps", kEps}};
    const auto expected =
        expected_of("poly_norm_forward", numbers,
                    {{"x", x.values()}, {"weight", weight.values()}, {"bias", bias.values()}});
    forward();
    EXPECT_TRUE(close(y.values(), expected.at("y"), gate_e(o.type))) << "y";
    if (o.with_rstd) {
      EXPECT_TRUE(close(rstd.values(), expected.at("rstd"), gate_e(f32))) << "rstd";
    }
    rstd.fill(expected.at("rstd"));
    const auto g = expected_of("poly_norm_backward", numbers,
                               {{"d_y", d_y.values()},
                                {"x", x.values()},
                                {"weight", weight.values()},
                                {"rstd", rstd.values()}},
                               {"d_weight", "d_bias"});
    const Values before = parameters();
    Values sums = g.at("d_weight");
    sums.push_back(g.at("d_bias")[0]);
    for (size_t i = 0; o.accumulate && i < sums.size(); ++i) sums[i] += before[i];
    if (!o.want_d_weight) std::copy_n(before.begin(), 3, sums.begin());
    if (!o.want_d_bias) sums[3] = before[3];
    backward(d_x);
    if (o.cols > 1)
      EXPECT_TRUE(close(d_x.values(), g.at("d_x"), gate_e(o.type))) << "d_x";
    else
      check_single_columns(g.at("d_x"));
    EXPECT_TRUE(close_normwise(parameters(), sums,
                               gate_r(o.d_weight_type, n) * backend().summation_slack()))
        << "d_weight, d_bias";
    for (const Tensor& t : {x, y, rstd, d_y, d_x, d_weight, d_bias})
      EXPECT_TRUE(t.untouched_outside());
  }
};

PolyNormOptions options_of(int64_t cols, DType type) {
  return {.cols = cols, .type = type, .weight_type = type};
}

TEST(PolyNorm, WidthsAndTypes) {
  int64_t number = 0;
  for (const auto& [h, type] : values_and_types(
           affordable({1, 2, 7, 64, 123, 1024, 4097, 16384, 20000, 65536}, 3), kFloats))
    Trial(options_of(h, type), 3, gap_of(number++)).check();
}

TEST(PolyNorm, RowsSharedByCtas) {
  for_rows_shared_by_ctas([](DType type, int64_t n, int64_t h, int64_t gap) {
    Trial(options_of(h, type), n, gap).check();
  });
}

TEST(PolyNorm, AnyNumberOfRows) {
  for_any_number_of_rows(
      [](DType type, int64_t n, int64_t h) { Trial(options_of(h, type), n).check(); });
}

// More programs store partial results than the last kernel reduces in one tile.
TEST(PolyNorm, ManyShortRows) {
  for (DType type : {bf16, f32}) {
    for (int64_t h : {1, 64})
      Trial(options_of(h, type), std::min<int64_t>(20011, backend().budget() / h)).check();
  }
}

TEST(PolyNorm, Parameters) {
  for (DType type : kFloats) {
    for (bool want_d_weight : {false, true}) {
      for (bool want_d_bias : {false, true}) {
        for (int64_t h : affordable({123, 20000}, 5)) {
          PolyNormOptions o = options_of(h, type);
          o.want_d_weight = want_d_weight;
          o.want_d_bias = want_d_bias;
          o.d_weight_type = want_d_bias ? f32 : type;
          o.accumulate = want_d_bias;
          o.with_rstd = want_d_weight;
          o.weight_type = want_d_weight ? type : f32;
          Trial(o, 5).check();
        }
      }
    }
  }
}

// The sixth powers of the elements are very small or very large.
TEST(PolyNorm, Magnitudes) {
  for (double scale : {1e-4, 1e-2, 1e2, 1e5}) Trial(options_of(300, f32), 4, 0, scale).check();
}

// In a row of zeros, rstd is 1 / sqrt(eps) and y is the bias.
TEST(PolyNorm, ZeroRow) {
  Trial run(options_of(40, f32), 1);
  run.x.fill(Values(40, 0.0));
  run.check();
  for (double y : run.y.values()) EXPECT_EQ(y, run.bias.get(0));
}

TEST(PolyNorm, NoRows) {
  for (bool accumulate : {false, true}) {
    PolyNormOptions o = options_of(64, f32);
    o.accumulate = accumulate;
    Trial run(o, 0);
    const Values before = run.parameters();
    run.backward(run.d_x);
    EXPECT_EQ(run.parameters(), accumulate ? before : Values(4, 0.0));
  }
}

TEST(PolyNorm, InPlaceAndRepeatedRunsAreBitEqual) {
  for (int64_t h : affordable({100, 20000}, 3)) {
    for (DType type : kFloats) {
      Trial separate(options_of(h, type), 3, 8), over(options_of(h, type), 3, 8);
      separate.forward();
      separate.backward(separate.d_x);
      over.forward();
      over.backward(over.d_y);
      EXPECT_TRUE(over.d_y.same_bits(separate.d_x)) << name(type);
      EXPECT_TRUE(over.d_weight.same_bits(separate.d_weight) &&
                  over.d_bias.same_bits(separate.d_bias))
          << name(type);
    }
  }
}

// A non-finite element affects only its row and the parameter gradients.
TEST(PolyNorm, NotFinite) {
  for (DType type : kFloats) {
    for (double bad : {NAN, INFINITY}) {
      Trial run(options_of(40, type), 6);
      run.x.set(45, bad);
      run.forward();
      run.backward(run.d_x);
      EXPECT_FALSE(std::isfinite(run.y.get(45))) << name(type);
      EXPECT_FALSE(std::isfinite(run.d_x.get(45))) << name(type);
      for (int64_t i = 0; i < 240; ++i) {
        if (i / 40 == 1) continue;
        ASSERT_TRUE(std::isfinite(run.y.get(i)) && std::isfinite(run.d_x.get(i)))
            << name(type) << " " << i;
      }
      EXPECT_FALSE(std::isfinite(run.d_weight.get(0))) << name(type);
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::poly_norm_test
