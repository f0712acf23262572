// Tests the accuracy of the elementary functions, most of them on every 4093rd of the 2^32 floats.
// docs/reference/dsl-elementwise.md promises 2 ulp for most functions. It promises errors of 1e-6
// absolute and 1e-5 relative for tanh, erf and sigmoid.
#include <random>

#include "cpu_kernel.h"

namespace ligerdsl::testing::math_test {
namespace {

constexpr uint32_t kStride = 4093;
constexpr int64_t kBlock = 16384;

std::vector<float> inputs() {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += kStride) {
    uint32_t word = static_cast<uint32_t>(bits);
    float value;
    std::memcpy(&value, &word, 4);
    x.push_back(value);
  }
  return x;
}

// Returns names of CPUs: "" (this host) and, on x86, one without AVX-512. Code for a CPU without
// AVX-512 assembles exponents from bits.
std::vector<std::string> cpus() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {"", "x86-64-v3"};
#endif
  return {""};
}

std::vector<float> evaluate(const std::function<Tile(Tile)>& f, std::vector<float>& x,
                            const std::string& cpu) {
  program::CompileOptions options = aliasing({1, 2});
  options.arch = cpu;
  CpuKernel kernel(
      [&](KernelBuilder& k) {
        View y = k.view("y", f32, {dyn}), in = k.view("x", f32, {dyn});
        y.partition({kBlock}).store({k.program_id(0)},
                                    f(in.partition({kBlock}).load({k.program_id(0)})));
      },
      options);
  int64_t n = static_cast<int64_t>(x.size());
  std::vector<float> y(x.size());
  kernel.run(Slots().view(y.data(), {n}).view(x.data(), {n}), {int32_t((n + kBlock - 1) / kBlock)});
  return y;
}

// Returns the error in units in the last place of the f32 nearest to `expected`.
double ulps(float actual, double expected) {
  if (std::isnan(actual) || std::isnan(expected))
    return std::isnan(actual) == std::isnan(expected) ? 0 : INFINITY;
  float nearest = static_cast<float>(expected);
  if (actual == nearest) return 0;
  if (std::isinf(actual) || std::isinf(nearest)) {
    constexpr double kMax = 3.4028234663852886e38;
    return std::fabs(std::isinf(actual) ? expected : actual) > kMax * (1 - 4e-7) &&
                   std::signbit(actual) == std::signbit(nearest)
               ? 1
               : INFINITY;
  }
  double unit = std::ldexp(1.0, std::max(std::ilogb(expected == 0 ? 1e-45 : expected), -126) - 23);
  return std::fabs(actual - expected) / unit;
}

// Checks the largest error(result, exact result) over all inputs.
void checkWorst(const char* name, const std::function<Tile(Tile)>& f, double (*exact)(double),
                const std::function<double(float, double)>& error, double limit) {
  std::vector<float> x = inputs();
  for (const std::string& cpu : cpus()) {
    std::vector<float> y = evaluate(f, x, cpu);
    double worst = 0;
    float at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      double found = error(y[i], exact(x[i]));
      if (found > worst) worst = found, at = x[i];
    }
    EXPECT_LE(worst, limit) << name << " of " << at << " " << cpu;
  }
}

void checkUlps(const char* name, const std::function<Tile(Tile)>& f, double (*exact)(double),
               double limit) {
  checkWorst(name, f, exact, ulps, limit);
}

void checkClose(const char* name, const std::function<Tile(Tile)>& f, double (*exact)(double)) {
  auto error = [](float actual, double expected) -> double {
    if (std::isnan(actual) != std::isnan(expected)) return INFINITY;
    if (std::isnan(expected)) return 0;
    const double off = std::fabs(actual - expected), size = std::fabs(expected);
    return std::max(off / 1e-6, std::min(off / (1e-5 * size + 1e-38), 1e9) * (size > 1e-37));
  };
  checkWorst(name, f, exact, error, 1);
}

TEST(CpuMath, ExponentialsAreAccurate) {
  checkUlps(
      "exp", [](Tile x) { return exp(x); }, [](double x) { return std::exp(x); }, 2);
  checkUlps(
      "exp2", [](Tile x) { return exp2(x); }, [](double x) { return std::exp2(x); }, 2);
}

// Angles of any size. For large ones, the reduction needs many bits of pi/2.
TEST(CpuMath, SineAndCosineAreAccurate) {
  checkUlps(
      "sin", [](Tile x) { return sin(x); }, [](double x) { return std::sin(x); }, 2);
  checkUlps(
      "cos", [](Tile x) { return cos(x); }, [](double x) { return std::cos(x); }, 2);
}

// Includes arguments for which adding or subtracting 1 loses most of the bits.
TEST(CpuMath, Log1pAndExpm1AreAccurate) {
  checkUlps(
      "log1p", [](Tile x) { return log1p(x); }, [](double x) { return std::log1p(x); }, 2);
  checkUlps(
      "expm1", [](Tile x) { return expm1(x); }, [](double x) { return std::expm1(x); }, 2);
  std::vector<float> x;
  for (float edge : {-1.0f,
                     -0.99999994f,
                     -0.5f,
                     -0.34657359f,
                     -0.29289323f,
                     0.34657359f,
                     0.41421357f,
                     0.69314718f,
                     1.0f,
                     -17.328680f,
                     -17.5f,
                     -18.0f,
                     88.722839f,
                     88.029693f,
                     1.1920929e-07f,
                     -5.9604645e-08f,
                     1e-45f,
                     16777216.0f,
                     std::numeric_limits<float>::max(),
                     INFINITY,
                     -INFINITY,
                     NAN})
    for (float near : {std::nextafter(edge, -10.0f), edge, std::nextafter(edge, 10.0f)})
      x.push_back(near);
  std::vector<float> logs = evaluate([](Tile t) { return log1p(t); }, x, ""),
                     powers = evaluate([](Tile t) { return expm1(t); }, x, "");
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_LE(ulps(logs[i], std::log1p(double{x[i]})), 2) << "log1p of " << x[i];
    EXPECT_LE(ulps(powers[i], std::expm1(double{x[i]})), 2) << "expm1 of " << x[i];
  }
}

// Near 1 the approximate logarithm also has a small relative error, which CPU kernels may rely on.
TEST(CpuMath, ApproximateLogarithmIsAccurateNearOne) {
  std::vector<float> x;
  for (int i = -500000; i <= 500000; ++i)
    if (i != 0) x.push_back(1 + static_cast<float>(i) * 1e-6f);
  for (const std::string& cpu : cpus()) {
    const std::vector<float> logs = evaluate([](Tile t) { return fast_log(t); }, x, cpu);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = std::log(double{x[i]});
      ASSERT_LE(std::fabs(logs[i] - expected), 6e-7 * std::fabs(expected))
          << cpu << " log of " << x[i];
    }
  }
}

// Bases of the whole range, with exponents that give powers from 2^-150 to 2^150. The error is
// largest if |y log2(x)| is large.
TEST(CpuMath, PowersAreAccurate) {
  std::mt19937_64 random(7);
  std::vector<float> x(1 << 20), y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const auto word = static_cast<uint32_t>(random());
    const uint32_t bits =
        i % 2 ? word & 0x7fffffff : 0x3f000000 + (word & 0xffffff);  // any positive, or 0.5 to 2
    std::memcpy(&x[i], &bits, 4);
    const double log = std::log2(double{x[i]}),
                 wanted = static_cast<double>(random() % 300000) / 1000 - 150;
    y[i] = static_cast<float>(wanted / log);
    if (i % 64 == 0) x[i] = -x[i], y[i] = std::nearbyint(y[i]);
  }
  for (const std::string& cpu : cpus()) {
    program::CompileOptions options = aliasing({1, 2, 3});
    options.arch = cpu;
    CpuKernel kernel(
        [&](KernelBuilder& k) {
          View out = k.view("out", f32, {dyn}), a = k.view("x", f32, {dyn}),
               b = k.view("y", f32, {dyn});
          const Scalar i = k.program_id(0);
          const Tile base = a.partition({kBlock}).load({i}),
                     power = b.partition({kBlock}).load({i});
          out.partition({kBlock}).store({i}, pow(base, power));
        },
        options);
    const auto n = static_cast<int64_t>(x.size());
    std::vector<float> out(x.size());
    kernel.run(Slots().view(out.data(), {n}).view(x.data(), {n}).view(y.data(), {n}),
               {int32_t(n / kBlock)});
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double found = ulps(out[i], std::pow(double{x[i]}, double{y[i]}));
      if (found > worst) worst = found, at = i;
    }
    EXPECT_LE(worst, 1.1) << x[at] << " to the power of " << y[at] << " " << cpu;
  }
}

// Tests angles at the limit between the two reductions, and the floats nearest to multiples of
// pi/2.
TEST(CpuMath, SineAndCosineAreAccurateNearMultiplesOfPi) {
  std::vector<float> x;
  for (float angle :
       {32768.0f, 0.785398163f, 1.57079637f, 3.14159274f, 6.28318548f, 1e-30f, 1e-45f, 71476.0625f,
        16367173.0f, 0x1.9c2a98p+124f, 0x1.fffffep+127f, 4.71238899f, 25735.9277f})
    for (float near : {std::nextafter(angle, 0.0f), angle, std::nextafter(angle, 1e30f)})
      for (float sign : {1.0f, -1.0f}) x.push_back(sign * near);
  for (float special : {0.0f, -0.0f, INFINITY, -INFINITY, NAN}) x.push_back(special);
  std::vector<float> y = evaluate([](Tile t) { return sin(t); }, x, ""),
                     c = evaluate([](Tile t) { return cos(t); }, x, "");
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_LE(ulps(y[i], std::sin(double{x[i]})), 2) << x[i];
    EXPECT_LE(ulps(c[i], std::cos(double{x[i]})), 2) << x[i];
    if (x[i] == 0) {
      EXPECT_EQ(std::signbit(y[i]), std::signbit(x[i]));
    }
  }
}

TEST(CpuMath, ApproximateExponentialsAreAccurate) {
  std::vector<float> x = inputs(), y = evaluate([](Tile t) { return fast_exp2(t); }, x, "");
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(y[i]));
    } else if (x[i] < -127) {  // the power is too small, or x is -infinity from a mask
      EXPECT_EQ(y[i], 0.0f) << x[i];
    } else if (x[i] > 128) {
      EXPECT_EQ(y[i], INFINITY) << x[i];
    } else if (x[i] >= -126 && x[i] <= 127) {
      worst = std::max(worst, ulps(y[i], std::exp2(double{x[i]})));
    }
  }
  EXPECT_LE(worst, 3);
  EXPECT_GT(worst, 0);
}

// The CPU's instruction set does not change a result that is a normal number.
TEST(CpuMath, ExponentialsHaveTheSameBitsOnEveryCpu) {
  std::vector<float> x = inputs();
  for (const auto& f : std::vector<std::function<Tile(Tile)>>{[](Tile t) { return fast_exp2(t); },
                                                              [](Tile t) { return exp2(t); },
                                                              [](Tile t) { return exp(t); }}) {
    std::vector<float> here = evaluate(f, x, cpus().front()), there = evaluate(f, x, cpus().back());
    for (size_t i = 0; i < x.size(); ++i) {
      if (!std::isnormal(here[i]) || here[i] >= 0x1p127f) continue;
      ASSERT_EQ(here[i], there[i]) << x[i];
    }
  }
}

// Short vectors and scalars give the same bits as long vectors.
TEST(CpuMath, ExponentialsHaveTheSameBitsForEveryWidth) {
  std::vector<float> x = randomFloats(64, 3, -20, 20), wide(64), narrow(64);
  auto run = [&](int64_t width, std::vector<float>& y) {
    CpuKernel kernel([&](KernelBuilder& k) {
      View out = k.view("y", f32, {dyn}), in = k.view("x", f32, {dyn});
      Scalar i = k.program_id(0);
      if (width == 1)
        out.store({i}, fast_exp2(in.load({i})) + exp(in.load({i})));
      else
        out.partition({width}).store(
            {i}, fast_exp2(in.partition({width}).load({i})) + exp(in.partition({width}).load({i})));
    });
    kernel.run(Slots().view(y.data(), {64}).view(x.data(), {64}), {int32_t(64 / width)});
  };
  run(64, wide);
  for (int64_t width : {1, 2, 4, 8}) {
    run(width, narrow);
    EXPECT_EQ(wide, narrow) << width;
  }
}

TEST(CpuMath, LogarithmsAreAccurate) {
  checkUlps(
      "log", [](Tile x) { return log(x); }, [](double x) { return std::log(x); }, 2);
  checkUlps(
      "log2", [](Tile x) { return log2(x); }, [](double x) { return std::log2(x); }, 2);
}

TEST(CpuMath, RootsAndDivisionAreAccurate) {
  checkUlps(
      "sqrt", [](Tile x) { return sqrt(x); }, [](double x) { return std::sqrt(x); }, 0.51);
  checkUlps(
      "rsqrt", [](Tile x) { return rsqrt(x); }, [](double x) { return 1 / std::sqrt(x); }, 2);
  checkUlps(
      "division", [](Tile x) { return 3.0f / x; }, [](double x) { return 3.0 / x; }, 0.51);
}

TEST(CpuMath, BoundedFunctionsAreAccurate) {
  checkClose(
      "tanh", [](Tile x) { return tanh(x); }, [](double x) { return std::tanh(x); });
  checkClose(
      "erf", [](Tile x) { return erf(x); }, [](double x) { return std::erf(x); });
  checkClose(
      "sigmoid", [](Tile x) { return sigmoid(x); },
      [](double x) { return 1 / (1 + std::exp(-x)); });
}

}  // namespace
}  // namespace ligerdsl::testing::math_test
