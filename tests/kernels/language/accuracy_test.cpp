// Compares the DSL's elementary functions on the program's backend with float64. Inputs are all
// bf16 and f16 numbers, and f32 numbers at a stride that the backend can afford. Prints the worst
// errors as rows of a table. The bounds are those of lib/include/ligerdsl/dsl/math.h and
// docs/reference/dsl-elementwise.md.
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include "kernels/core/record.h"
#include "program/op_info.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::accuracy_test {
namespace {

using kernels::Step;

constexpr int64_t kBlock = 512, kAtATime = int64_t{1} << 20;
constexpr double kLeastNormal = 0x1p-126, kMost = 3.4028234663852886e38;

// Error bound of a function for inputs between low and high. `exact` requires correctly rounded
// results. Without `exact`, a result below the smallest normal number may be 0.
struct Bound {
  bool exact = false;
  double ulp = INFINITY, relative = INFINITY, absolute = INFINITY;  // all of them must hold
  double either = 0;  // if not 0, bounds the smaller of the relative and absolute error
  double low = -INFINITY, high = INFINITY;
};
constexpr Bound kExact = {.exact = true};
constexpr Bound kTwoUlp = {.ulp = 2};
constexpr Bound kBounded = {.relative = 1e-5, .absolute = 1e-6};

struct Function {
  const char* name;
  Tile (*tile)(const Tile&);
  double (*value)(double);
  Bound bound;
};

std::ostream& operator<<(std::ostream& out, const Function& function) {
  return out << function.name;
}

double reciprocal_root(double x) {
  return 1 / std::sqrt(x);
}
double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

#define FUNCTION(name, value, ...)                                                               \
  {                                                                                              \
#name,                                                                                       \
        +[](const Tile& x) { return name(x); },                                                  \
                                             +[](double x) -> double { return value; },          \
                                                                                     __VA_ARGS__ \
  }
const Function kFunctions[] = {
    FUNCTION(exp, std::exp(x), kTwoUlp),
    FUNCTION(exp2, std::exp2(x), {.ulp = 2.5}),
    FUNCTION(log, std::log(x), kTwoUlp),
    FUNCTION(log2, std::log2(x), kTwoUlp),
    FUNCTION(sqrt, std::sqrt(x), kExact),
    FUNCTION(rsqrt, reciprocal_root(x), kTwoUlp),
    FUNCTION(tanh, std::tanh(x), kBounded),
    FUNCTION(erf, std::erf(x), kBounded),
    FUNCTION(sigmoid, logistic(x), kBounded),
    FUNCTION(sin, std::sin(x), kTwoUlp),
    FUNCTION(cos, std::cos(x), kTwoUlp),
    FUNCTION(log1p, std::log1p(x), kTwoUlp),
    FUNCTION(expm1, std::expm1(x), kTwoUlp),
    {"pow", +[](const Tile& x) { return pow(x, 2.7f); },
     +[](double x) { return std::pow(x, 2.7f); }, kTwoUlp},
    {"pow_odd", +[](const Tile& x) { return pow(x, -3); },
     +[](double x) { return std::pow(x, -3); }, kTwoUlp},
    {"pow_root", +[](const Tile& x) { return pow(x, 1e-3f); },
     +[](double x) { return std::pow(x, 1e-3f); }, kTwoUlp},
    {"pow_base", +[](const Tile& x) { return pow(1.7f, x); },
     +[](double x) { return std::pow(1.7f, x); }, kTwoUlp},
    {"pow_near_one", +[](const Tile& x) { return pow(0.9999f, x); },
     +[](double x) { return std::pow(0.9999f, x); }, kTwoUlp},
    FUNCTION(abs, std::fabs(x), kExact),
    FUNCTION(floor, std::floor(x), kExact),
    FUNCTION(ceil, std::ceil(x), kExact),
    FUNCTION(round, std::nearbyint(x), kExact),
    {"neg", +[](const Tile& x) { return -x; }, +[](double x) { return -x; }, kExact},
    {"div", +[](const Tile& x) { return 3.0f / x; }, +[](double x) { return 3 / x; }, kExact},
    FUNCTION(fast_exp, std::exp(x), {.relative = 1e-5, .low = -87, .high = 88}),
    FUNCTION(fast_exp2, std::exp2(x), {.ulp = 3, .low = -126, .high = 127}),
    FUNCTION(fast_log, std::log(x), {.either = 1e-6, .low = kLeastNormal, .high = kMost}),
    FUNCTION(fast_log2, std::log2(x), {.either = 1e-6, .low = kLeastNormal, .high = kMost}),
    FUNCTION(fast_sqrt, std::sqrt(x), {.ulp = 3, .low = kLeastNormal, .high = kMost}),
    FUNCTION(fast_rsqrt, reciprocal_root(x), {.ulp = 3, .low = kLeastNormal, .high = kMost}),
    FUNCTION(fast_tanh, std::tanh(x), {.relative = 6e-4}),
    FUNCTION(fast_sigmoid, logistic(x), {.relative = 2e-5, .low = -80}),
    {"fast_div",
     +[](const Tile& x) { return fast_div(3.0f, x); },
     +[](double x) { return 3 / x; },
     {.ulp = 2, .low = 0x1p-120, .high = 0x1p120}},
};
#undef FUNCTION

// Distance between consecutive f32 inputs, in bit patterns.
uint64_t stride() {
  if (backend().name() == "cuda") return 61;
  return backend().name() == "cpu" ? 4099 : (1 << 20) + 7;
}

Step step_of(const Function& function, DType type, int64_t n) {
  KernelBuilder k("function");
  View y = k.view("y", f32, {dyn}), in = k.view("x", type, {dyn});
  Scalar i = k.program_id(0);
  Tile x = in.partition({kBlock}).load({i});
  y.partition({kBlock}).store({i}, function.tile(type == f32 ? x : x.to(f32)));
  return {.program = k.finish(), .launch = kernels::library_launch(ceil_div(n, kBlock), 4)};
}

// The largest error and its input.
struct Worst {
  double error = 0, at = 0;
  void see(double found, double x) {
    if (found > error) error = found, at = x;
  }
  void see(const Worst& other) { see(other.error, other.at); }
};

struct Errors {
  Worst ulp, relative, absolute, beyond;  // beyond: error divided by its bound
  void see(const Errors& other) {
    ulp.see(other.ulp);
    relative.see(other.relative);
    absolute.see(other.absolute);
    beyond.see(other.beyond);
  }
};

// Returns true if both are NaN or the same infinity, or if one is an infinity and the other has the
// same sign and is nearly the largest float or larger.
bool special_agrees(float actual, double expected) {
  if (std::isnan(actual) || std::isnan(expected)) return std::isnan(actual) && std::isnan(expected);
  const double finite = std::isinf(actual) ? expected : actual;
  return std::signbit(actual) == std::signbit(expected) && std::fabs(finite) > kMost * (1 - 4e-7);
}

void judge(const Bound& bound, double x, float actual, double expected, Errors* errors) {
  if (x < bound.low || x > bound.high || (std::isnan(x) && bound.low > -INFINITY)) return;
  const float nearest = static_cast<float>(expected);
  if (!std::isfinite(actual) || !std::isfinite(nearest)) {
    if (!special_agrees(actual, expected)) errors->beyond.see(INFINITY, x);
    return;
  }
  if (bound.exact) {
    if (actual != nearest) errors->beyond.see(INFINITY, x);
  } else if (std::fabs(expected) < kLeastNormal) {
    if (std::fabs(actual - expected) > kLeastNormal) errors->beyond.see(INFINITY, x);
    return;
  }
  if (actual == nearest && bound.exact) return;
  const double off = std::fabs(actual - expected), size = std::fabs(expected);
  const double unit =
      std::ldexp(1.0, std::max(std::ilogb(size == 0 ? kLeastNormal : size), -126) - 23);
  const double relative = size > 0 ? off / size : 0;
  errors->ulp.see(off / unit, x);
  errors->relative.see(relative, x);
  errors->absolute.see(off, x);
  errors->beyond.see(
      std::max({off / unit / bound.ulp, relative / bound.relative, off / bound.absolute}), x);
  if (bound.either > 0) errors->beyond.see(std::min(relative, off) / bound.either, x);
}

// Runs the function on inputs from `input(i)` and judges each result. Several threads compute the
// reference values.
template <class Bits, class Input, class Value>
Errors measure(const Function& function, DType type, int64_t count, const Input& input,
               const Value& value) {
  Errors all;
  for (int64_t first = 0; first < count; first += kAtATime) {
    const int64_t n = std::min(kAtATime, count - first);
    Tensor in(type, {n}), out(f32, {n});
    auto* bits = reinterpret_cast<Bits*>(in.data());
    for (int64_t i = 0; i < n; ++i) bits[i] = input(first + i);
    backend().run({.steps = {step_of(function, type, n)}}, n,
                  Arguments().tensor("y", out).tensor("x", in));
    const auto* results = reinterpret_cast<const float*>(out.data());
    const int64_t threads = std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, 16);
    std::vector<Errors> of_thread(static_cast<size_t>(threads));
    std::vector<std::thread> running;
    for (int64_t t = 0; t < threads; ++t) {
      running.emplace_back([&, t] {
        for (int64_t i = t; i < n; i += threads) {
          const double x = value(bits[i]);
          judge(function.bound, x, results[i], function.value(x),
                &of_thread[static_cast<size_t>(t)]);
        }
      });
    }
    for (std::thread& thread : running) thread.join();
    for (const Errors& errors : of_thread) all.see(errors);
  }
  return all;
}

class Accuracy : public ::testing::TestWithParam<Function> {};

void report(const Function& function, const char* inputs, const Errors& e) {
  std::printf("| %s | %s | %.3f ulp at %.9g | relative %.2e at %.9g | absolute %.2e at %.9g |\n",
              function.name, inputs, e.ulp.error, e.ulp.at, e.relative.error, e.relative.at,
              e.absolute.error, e.absolute.at);
  EXPECT_LE(e.beyond.error, 1) << function.name << " of " << e.beyond.at << ", " << inputs
                               << ": largest error, as a multiple of its bound";
}

TEST_P(Accuracy, EveryFloat) {
  const auto step = static_cast<int64_t>(stride());
  const Errors errors = measure<uint32_t>(
      GetParam(), f32, (int64_t{1} << 32) / step,
      [=](int64_t i) { return static_cast<uint32_t>(i * step); },
      [](uint32_t bits) { return std::bit_cast<float>(bits); });
  report(GetParam(), "f32", errors);
}

TEST_P(Accuracy, EveryHalf) {
  const int64_t step = backend().name() == "cuda" || backend().name() == "cpu" ? 1 : 37;
  const auto input = [=](int64_t i) { return static_cast<uint16_t>(i * step); };
  report(GetParam(), "bf16", measure<uint16_t>(GetParam(), bf16, 65536 / step, input, from_bf16));
  report(GetParam(), "f16", measure<uint16_t>(GetParam(), f16, 65536 / step, input, from_f16));
}

INSTANTIATE_TEST_SUITE_P(Functions, Accuracy, ::testing::ValuesIn(kFunctions),
                         [](const auto& info) { return std::string(info.param.name); });

// Every op of the families `sign` and `math` has a case, and so does its fast variant, if any.
TEST(AccuracyCases, EveryUnaryFunctionHasACase) {
  std::set<std::string> have;
  for (const Function& function : kFunctions) have.insert(function.name);
  for (const program::OpInfo& operation : program::operations()) {
    if (operation.family != program::Family::sign && operation.family != program::Family::math)
      continue;
    const std::string name = operation.name;
    EXPECT_TRUE(have.contains(name)) << name;
    const bool has_fast = (operation.takes >> static_cast<int>(program::AttrKey::fast)) & 1;
    EXPECT_EQ(has_fast, have.contains("fast_" + name)) << name;
  }
  EXPECT_TRUE(have.contains("pow")) << "pow has two operands and needs a case, too";
}

// judge() reports an error beyond the bound, also for special values.
TEST(AccuracyCases, ErrorsBeyondTheBoundAreReported) {
  const auto beyond = [](const Bound& bound, double x, float actual, double expected) {
    Errors errors;
    judge(bound, x, actual, expected, &errors);
    return errors.beyond.error > 1;
  };
  EXPECT_FALSE(beyond(kTwoUlp, 1, 1.0f + 2 * 0x1p-23f, 1));
  EXPECT_TRUE(beyond(kTwoUlp, 1, 1.0f + 3 * 0x1p-23f, 1));
  EXPECT_TRUE(beyond(kExact, 1, 1.0f + 0x1p-23f, 1));
  EXPECT_TRUE(beyond(kBounded, 1, 0.5f, 0.50001));
  EXPECT_TRUE(beyond(kTwoUlp, 1, INFINITY, 1e30));
  EXPECT_FALSE(beyond(kTwoUlp, 89, INFINITY, 4.5e38));
  EXPECT_TRUE(beyond(kTwoUlp, -1, 0.0f, NAN));
  EXPECT_TRUE(beyond(kTwoUlp, NAN, 0.0f, NAN));
  EXPECT_FALSE(beyond(kTwoUlp, -90, 0.0f, 1e-39));
  EXPECT_TRUE(beyond(kExact, 1e-39, 0.0f, 1e-39));
  EXPECT_TRUE(beyond({.either = 1e-6}, 1, 1.1f, 1.0));
}

}  // namespace
}  // namespace ligerdsl::test::accuracy_test
