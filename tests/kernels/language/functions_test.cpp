// Tests functions that a target expands with a branch or with an instruction of limited range. The
// inputs are special values, and vectors with elements on both sides of the limit.
// tests/compiler/cpu/math_test.cpp tests the accuracy on every 4093rd float.
#include <cmath>
#include <limits>

#include "kernels/core/record.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::functions_test {
namespace {

using kernels::Step;

constexpr int64_t kBlock = 512;
constexpr double kTiny =
    1.1754943508222875e-38;  // smallest normal float: a GPU returns 0 for smaller results

using Function = Tile (*)(const Tile&);

Values evaluate(Function function, const Values& x) {
  KernelBuilder k("function");
  {
    View y = k.view("y", f32, {dyn}), in = k.view("x", f32, {dyn});
    Scalar i = k.program_id(0);
    y.partition({kBlock}).store({i}, function(in.partition({kBlock}).load({i})));
  }
  const auto n = static_cast<int64_t>(x.size());
  const Step step{.program = k.finish(), .launch = kernels::library_launch(ceil_div(n, kBlock), 4)};
  Tensor in = Tensor(f32, {n}).fill(x), y(f32, {n});
  expect_aligned(
      [&] { backend().run({.steps = {step}}, n, Arguments().tensor("y", y).tensor("x", in)); });
  return y.values();
}

// Returns vectors with one special number among small ones, at each place of a vector. Then come
// numbers on both sides of tanh's limit.
Values mixtures() {
  constexpr double kInf = std::numeric_limits<double>::infinity(),
                   kNan = std::numeric_limits<double>::quiet_NaN();
  Values x;
  for (double one : {kNan, kInf, -kInf, 3e38, -3e38, 90.0, -90.0, 87.0, -87.0, 0.75, -0.75, 0.0,
                     -0.0, 1e-45, -1e-39}) {
    for (size_t place = 0; place < 4; ++place) {
      for (size_t i = 0; i < 4; ++i)
        x.push_back(static_cast<float>(i == place ? one : 0.05 * i - 0.1));
    }
  }
  for (int i = 0; i < 2048; ++i) x.push_back(static_cast<float>((i * 37 % 2049 - 1024) / 1024.0));
  return x;
}

void expect_bound(Function function, double (*reference)(double)) {
  const Values x = mixtures(), y = evaluate(function, x);
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = reference(x[i]);
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(y[i])) << y[i];
    } else {
      EXPECT_NEAR(y[i], expected, std::min(1e-6, 1e-5 * std::fabs(expected) + kTiny)) << x[i];
    }
  }
}

TEST(Functions, TanhOfMixedVectors) {
  expect_bound(
      +[](const Tile& x) { return tanh(x); }, +[](double x) { return std::tanh(x); });
}

TEST(Functions, SigmoidOfMixedVectors) {
  expect_bound(
      +[](const Tile& x) { return sigmoid(x); }, +[](double x) { return 1 / (1 + std::exp(-x)); });
}

// Compares the powers of all pairs of numbers with C's powf.
TEST(Functions, PowersOfSpecialValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> numbers = {
      0.0f,        -0.0f,      1.0f,        -1.0f,        0.5f,       -0.5f,       2.0f,
      -2.0f,       3.0f,       -3.0f,       kInf,         -kInf,      kNan,        1e-45f,
      -1e-45f,     3.4e38f,    -3.4e38f,    1e30f,        -1e30f,     16777215.0f, -16777215.0f,
      16777216.0f, 8388607.5f, 0.99999994f, -0.99999994f, 1.0000001f, -1.0000001f, 2147483648.0f,
      2.5f,        127.9f,     -0.75f,      -149.5f};
  Values x, y;
  for (float base : numbers) {
    for (float power : numbers) x.push_back(base), y.push_back(power);
  }
  KernelBuilder k("powers");
  {
    View out = k.view("out", f32, {dyn}), a = k.view("a", f32, {dyn}), b = k.view("b", f32, {dyn});
    Scalar i = k.program_id(0);
    out.partition({kBlock}).store(
        {i}, pow(a.partition({kBlock}).load({i}), b.partition({kBlock}).load({i})));
  }
  const auto n = static_cast<int64_t>(x.size());
  const Step step{.program = k.finish(), .launch = kernels::library_launch(ceil_div(n, kBlock), 4)};
  Tensor a = Tensor(f32, {n}).fill(x), b = Tensor(f32, {n}).fill(y), out(f32, {n});
  expect_aligned([&] {
    backend().run({.steps = {step}}, n,
                  Arguments().tensor("out", out).tensor("a", a).tensor("b", b));
  });
  for (int64_t i = 0; i < n; ++i) {
    const float expected = std::pow(static_cast<float>(x[i]), static_cast<float>(y[i]));
    const double found = out.get(i);
    const std::string what = std::to_string(x[i]) + " to the power of " + std::to_string(y[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found)) << what << ": " << found;
      continue;
    }
    EXPECT_EQ(std::signbit(found), std::signbit(expected)) << what;
    if (std::isinf(expected) || expected == 1.0f || expected == 0.0f)
      EXPECT_EQ(found, expected) << what;
    else
      EXPECT_NEAR(found, expected, 3e-7 * std::fabs(expected) + kTiny) << what;
  }
}

// Conversion rounds toward zero. A number out of range becomes the nearest integer of the type, and
// NaN becomes 0.
TEST(Functions, FloatsToIntegersSaturate) {
  constexpr double kInf = std::numeric_limits<double>::infinity(),
                   kNan = std::numeric_limits<double>::quiet_NaN();
  const Values x = {0.0,   0.9,     -0.9,   127.9,  128.0,        -128.9,  -129.0,
                    300.0, -300.0,  1e6,    -1e6,   32767.9,      32768.0, -32768.9,
                    7.0e4, 32766.5, -7.0e4, 2.14e9, 2147483648.0, 3e9,     -2147483648.0,
                    -3e9,  1e18,    1e19,   -1e19,  kInf,         -kInf,   kNan,
                    -3.5,  65504.0, 9.3e18, -9.3e18};
  const auto expect = [&](Function function, double least, double most, const char* what) {
    const Values y = evaluate(function, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact =
          std::isnan(x[i])
              ? 0.0
              : std::clamp(std::trunc(static_cast<double>(static_cast<float>(x[i]))), least, most);
      EXPECT_EQ(y[i], static_cast<float>(exact)) << what << " of " << x[i];
    }
  };
  expect(
      +[](const Tile& t) { return t.to(i8).to(f32); }, -128, 127, "i8");
  expect(
      +[](const Tile& t) { return t.to(i16).to(f32); }, -32768, 32767, "i16");
  expect(
      +[](const Tile& t) { return t.to(i32).to(f32); }, -0x1p31, 0x1p31 - 1, "i32");
  expect(
      +[](const Tile& t) { return t.to(i64).to(f32); }, -0x1p63, 0x1p63, "i64");
  // bf16 represents whole numbers up to 128 exactly.
  const auto half = [](const Tile& t) {
    return min(max(t, -1e30f), 1e30f).to(bf16).to(i8).to(f32);
  };
  const Values y = evaluate(+half, {1e6, -1e6, 100.0, -3.5, 128.0, 0.0, 1.0, -1.0});
  EXPECT_EQ(y, (Values{127, -128, 100, -3, 127, 0, 1, -1}));
}

}  // namespace
}  // namespace ligerdsl::test::functions_test
