#include "kernels/elementwise/activation.h"

#include <limits>

#include "kernels/elementwise/activation_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::activation_test {
namespace {

using kernels::Activation;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const char* name_of(Activation kind) {
  constexpr const char* names[] = {"GeluTanh", "GeluErf", "Silu", "Relu", "ReluSquared"};
  return names[static_cast<int>(kind)];
}

struct Trial {
  kernels::ActivationOptions options;
  int64_t n;
  Tensor x, y, d_y, d_x;

  Trial(Activation kind, DType type, int64_t n, int64_t cols, int64_t gap)
      : options{.cols = cols, .type = type, .kind = kind}, n(n) {
    x = random_rows(type, n, cols, 1, gap, 2.0);
    d_y = random_rows(type, n, cols, 2, gap);
    d_x = random_rows(type, n, cols, 3, gap);
    y = Tensor::rows(type, n, cols, gap);
  }
  ActivationKind kind() const { return static_cast<ActivationKind>(options.kind); }
  void forward(const Tensor& to) {
    backend().run(kernels::activation_forward(machine(), options), n,
                  Arguments().tensor("x", x).tensor("y", to));
  }
  void backward(const Tensor& to) {
    backend().run(kernels::activation_backward(machine(), options), n,
                  Arguments().tensor("x", x).tensor("d_y", d_y).tensor("d_x", to));
  }
  void check() {
    SCOPED_TRACE(std::string(name_of(options.kind)) + " " + name(options.type) +
                 " n=" + std::to_string(n) + " cols=" + std::to_string(options.cols) +
                 (options.accumulate ? " accumulate" : ""));
    const Values u = x.values(), before = d_x.values();
    forward(y);
    EXPECT_TRUE(close(y.values(), activation_reference(kind(), u), gate_e(options.type))) << "y";
    Values expected = activation_gradient_reference(kind(), d_y.values(), u);
    for (size_t i = 0; options.accumulate && i < expected.size(); ++i) expected[i] += before[i];
    backward(d_x);
    EXPECT_TRUE(close(d_x.values(), expected, gate_e(options.type))) << "d_x";
    for (const Tensor& t : {y, d_x}) EXPECT_TRUE(t.untouched_outside());
  }
};

class Activations : public ::testing::TestWithParam<Activation> {};

TEST_P(Activations, WidthsAndTypes) {
  int64_t number = 0;
  for (const auto& [cols, type] :
       values_and_types(affordable({1, 8, 41, 431, 512, 4096, 4097, 11008, 32768}, 4), kFloats))
    Trial(GetParam(), type, 4, cols, gap_of(number++)).check();
  Trial(GetParam(), bf16, 300, 24, 0).check();
}

TEST_P(Activations, Accumulate) {
  for (DType type : kFloats) {
    Trial run(GetParam(), type, 5, 333, 8);
    run.options.accumulate = true;
    run.check();
  }
}

TEST_P(Activations, InPlaceIsBitEqual) {
  for (DType type : kFloats) {
    Trial run(GetParam(), type, 5, 333, 8);
    run.forward(run.y);
    run.backward(run.d_x);
    Trial over(GetParam(), type, 5, 333, 8);
    over.backward(over.d_y);
    EXPECT_TRUE(over.d_y.same_bits(run.d_x)) << "over d_y, " << name(type);
    over = Trial(GetParam(), type, 5, 333, 8);
    over.backward(over.x);
    EXPECT_TRUE(over.x.same_bits(run.d_x)) << "over x, " << name(type);
    over = Trial(GetParam(), type, 5, 333, 8);
    over.forward(over.x);
    EXPECT_TRUE(over.x.same_bits(run.y)) << "forward, " << name(type);
  }
}

TEST_P(Activations, LargeInputsStayFinite) {
  for (DType type : {f32, bf16}) {
    Trial run(GetParam(), type, 1, 8, 0);
    // The square of 2^100 exceeds the range of f32.
    const double huge = GetParam() == Activation::relu_squared ? 0x1p60 : 0x1p100;
    run.x.fill(Values{1e4, -1e4, 88.8, -88.8, 0.0, -200.0, huge, -huge});
    run.forward(run.y);
    run.backward(run.d_x);
    for (const Tensor& t : {run.y, run.d_x}) {
      for (double value : t.values()) EXPECT_TRUE(std::isfinite(value));
    }
    run.x.fill(Values{1e4, -1e4, 88.8, -88.8, 0.0, -200.0, 16.5, -16.5});
    run.check();
  }
}

TEST_P(Activations, PropagatesNanAndInfinity) {
  for (DType type : kFloats) {
    Trial run(GetParam(), type, 1, 4, 0);
    run.x.fill(Values{kNan, kInfinity, 1.0, 1.0});
    run.d_y.fill(Values{1.0, 1.0, kNan, 1.0});
    run.forward(run.y);
    run.backward(run.d_x);
    EXPECT_TRUE(std::isnan(run.y.get(0)) && run.y.get(1) == kInfinity &&
                std::isfinite(run.y.get(2)))
        << name(type);
    EXPECT_TRUE(std::isnan(run.d_x.get(2)) && std::isfinite(run.d_x.get(3))) << name(type);
    // The slope of relu is 1 for NaN.
    EXPECT_EQ(std::isnan(run.d_x.get(0)), GetParam() != Activation::relu) << name(type);
  }
}

INSTANTIATE_TEST_SUITE_P(, Activations,
                         ::testing::Values(Activation::gelu_tanh, Activation::gelu_erf,
                                           Activation::silu, Activation::relu,
                                           Activation::relu_squared),
                         [](const auto& info) { return name_of(info.param); });

// The gradient is 0 for x <= 0, even if the upstream gradient is infinite or NaN.
TEST(Activation, ReluIsFlatUpToZero) {
  for (Activation kind : {Activation::relu, Activation::relu_squared}) {
    for (DType type : kFloats) {
      Trial run(kind, type, 1, 6, 0);
      run.x.fill(Values{0.0, -0.0, -1.0, -kInfinity, 2.0, 2.0});
      run.d_y.fill(Values{3.0, kInfinity, kNan, kInfinity, -3.0, kInfinity});
      run.backward(run.d_x);
      const double slope = kind == Activation::relu ? 1 : 4;
      const Values expected{0, 0, 0, 0, -3 * slope, kInfinity};
      for (int64_t i = 0; i < 6; ++i)
        EXPECT_EQ(run.d_x.get(i), expected[i]) << name_of(kind) << " " << i;
    }
  }
}

// gelu(-5) is about -2e-7 (tanh) or -1.4e-6 (erf). For these inputs, 1 + tanh and 1 + erf would be
// 0 in f32 or have lost digits.
TEST(Activation, TailsKeepTheirDigits) {
  for (Activation kind : {Activation::gelu_tanh, Activation::gelu_erf}) {
    Trial run(kind, f32, 1, 6, 0);
    const Values u{-3.0, -4.0, -5.0, -6.0, -7.0, -8.0};
    run.x.fill(u);
    run.d_y.fill(Values(6, 1.0));
    run.forward(run.y);
    run.backward(run.d_x);
    for (int64_t i = 0; i < 6; ++i) {
      const double y = activation_reference(run.kind(), u[i]),
                   d_x = activation_slope_reference(run.kind(), u[i]);
      EXPECT_NEAR(run.y.get(i), y, 3e-5 * std::fabs(y)) << name_of(kind) << " " << u[i];
      EXPECT_NEAR(run.d_x.get(i), d_x, 3e-5 * std::fabs(d_x)) << name_of(kind) << " " << u[i];
    }
  }
}

// Inputs are in steps of 2^-10 from -14 to 14. The error is at most that of the polynomial plus a
// few roundings. Below -13 the result is about 0.
TEST(Activation, GeluErfEverywhere) {
  const int64_t count = std::min<int64_t>(28 << 10, backend().budget());
  Trial run(Activation::gelu_erf, f32, 1, count, 0);
  Values u(count);
  for (int64_t i = 0; i < count; ++i)
    u[i] = -14.0 + 28.0 * static_cast<double>(i) / static_cast<double>(count);
  run.x.fill(u);
  run.d_y.fill(Values(count, 1.0));
  u = run.x.values();
  run.forward(run.y);
  run.backward(run.d_x);
  for (int64_t i = 0; i < count; ++i) {
    const double y = activation_reference(run.kind(), u[i]),
                 d_x = activation_slope_reference(run.kind(), u[i]);
    ASSERT_NEAR(run.y.get(i), y, 1e-5 * std::fabs(y) + 2e-36) << u[i];
    ASSERT_NEAR(run.d_x.get(i), d_x,
                1e-5 * std::fabs(d_x) + 1e-6 * std::exp(-0.5 * u[i] * u[i]) + 2e-36)
        << u[i];
  }
}

}  // namespace
}  // namespace ligerdsl::test::activation_test
