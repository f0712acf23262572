// Tests elementwise ops and conversions for every data type, on ragged tiles.
#include "oracle.h"

namespace ligerdsl::testing::elementwise_test {
namespace {

constexpr int64_t kBlock = 64, kCount = 3 * kBlock + 21;

// Returns options for this host without and with aliasing facts, and for the oldest CPU. That CPU
// has no FMA, F16C, rounding instructions or masked moves.
std::vector<program::CompileOptions> targets(size_t arguments) {
  program::CompileOptions oldest = distinct(arguments);
  oldest.arch = "x86-64";
  return {{}, distinct(arguments), oldest};
}

using Binary = std::function<Tile(Tile, Tile)>;

// Checks out[i] = op(a[i], b[i]) for views of one data type.
void checkBinary(const char* name, DType dtype, DType outType, std::vector<double> a,
                 std::vector<double> b, const Binary& op, Tolerance tolerance = {}) {
  SCOPED_TRACE(name);
  auto build = [&](KernelBuilder& k) {
    View out = k.view("out", outType, {dyn}), x = k.view("x", dtype, {dyn}),
         y = k.view("y", dtype, {dyn});
    Scalar i = k.program_id(0);
    out.partition({kBlock}).store(
        {i}, op(x.partition({kBlock}).load({i}), y.partition({kBlock}).load({i}, {.pad = 1})));
  };
  Case()
      .out(outType, {kCount})
      .view(dtype, a, {kCount})
      .view(dtype, b, {kCount})
      .check(build, {4}, tolerance, targets(3));
}

TEST(CpuElementwise, FloatArithmeticMatchesTheInterpreter) {
  std::vector<double> a = randomNumbers(kCount, 1), b = randomNumbers(kCount, 2);
  for (DType type : {f32, f16, bf16}) {
    double ulp = type == f32 ? 1e-7 : type == f16 ? 1e-3 : 8e-3;
    auto check = [&](const char* name, const Binary& op, double factor = 1) {
      checkBinary(name, type, type, a, b, op, {ulp * 1e-2, ulp * factor});
    };
    check("add", [](Tile x, Tile y) { return x + y; });
    check("sub", [](Tile x, Tile y) { return x - y; });
    check("mul", [](Tile x, Tile y) { return x * y; });
    check("div", [](Tile x, Tile y) { return x / y; });
    check("min", [](Tile x, Tile y) { return min(x, y); });
    check("max", [](Tile x, Tile y) { return max(x, y); });
    check("neg", [](Tile x, Tile) { return -x; });
    check("abs", [](Tile x, Tile) { return abs(x); });
    check("floor", [](Tile x, Tile) { return floor(x); });
    check("ceil", [](Tile x, Tile) { return ceil(x); });
    check("select", [](Tile x, Tile y) { return where(x < y, x, y); });
    check("fma", [](Tile x, Tile y) { return fma(x, y, x); });
    checkBinary("compare", type, i1, a, b, [](Tile x, Tile y) { return (x < y) | (x == 1.0f); });
  }
}

TEST(CpuElementwise, MinAndMaxPropagateNan) {
  std::vector<double> a(kCount, 1.0), b(kCount, 2.0);
  for (int64_t i = 0; i < kCount; ++i) {
    if (i % 3 == 0) a[i] = NAN;
    if (i % 5 == 0) b[i] = NAN;
  }
  for (DType type : {f32, bf16, f16}) {
    checkBinary("min", type, type, a, b, [](Tile x, Tile y) { return min(x, y); });
    checkBinary("max", type, type, a, b, [](Tile x, Tile y) { return max(x, y); });
    checkBinary("ne", type, i1, a, b, [](Tile x, Tile y) { return x != y; });
    checkBinary("lt", type, i1, a, b, [](Tile x, Tile y) { return x < y; });
  }
}

// Max or min with a constant compiles to one instruction. It must treat NaN and the signs of zeros
// like the general code.
TEST(CpuElementwise, LimitsPropagateNan) {
  CpuKernel kernel([](KernelBuilder& k) {
    View y = k.view("y", f32, {6, 16}), in = k.view("x", f32, {16});
    Tile x = in.partition({16}).load({0});
    Scalar zero = k.scalar("zero", f32);
    const std::array<Tile, 6> limited = {max(x, 1.5f),  max(1.5f, x), min(x, -1.5f),
                                         min(-1.5f, x), max(x, 0.0f), max(x, zero)};
    for (int64_t i = 0; i < 6; ++i) y.partition({squeeze, 16}).store({i, 0}, limited[i]);
  });
  std::vector<float> x = {NAN, -NAN, 0.0f,     -0.0f,     1.5f,  -1.5f,  1,      -1,
                          2,   -2,   INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f, -1e-40f};
  std::vector<float> y(6 * 16);
  kernel.run(Slots().view(y.data(), {6, 16}).view(x.data(), {16}).value(0.0f));
  for (size_t i = 0; i < 16; ++i) {
    for (size_t row = 0; row < 4; ++row) {
      const float found = y[row * 16 + i],
                  expected = row < 2 ? std::max(x[i], 1.5f) : std::min(x[i], -1.5f);
      if (std::isnan(x[i]))
        EXPECT_TRUE(std::isnan(found)) << row;
      else
        EXPECT_EQ(found, expected) << row << ' ' << x[i];
    }
    if (!std::isnan(x[i])) {
      EXPECT_EQ(std::signbit(y[4 * 16 + i]), std::signbit(y[5 * 16 + i])) << x[i];
    }
  }
}

TEST(CpuElementwise, FunctionsMatchTheInterpreter) {
  std::vector<double> a = randomNumbers(kCount, 3, -6, 6), b = randomNumbers(kCount, 4, 0.01, 50);
  auto check = [&](const char* name, const Binary& op) {
    checkBinary(name, f32, f32, a, b, op, {1e-6, 1e-5});
  };
  check("exp", [](Tile x, Tile) { return exp(x); });
  check("exp2", [](Tile x, Tile) { return exp2(x); });
  check("log", [](Tile, Tile y) { return log(y); });
  check("log2", [](Tile, Tile y) { return log2(y); });
  check("sqrt", [](Tile, Tile y) { return sqrt(y); });
  check("rsqrt", [](Tile, Tile y) { return rsqrt(y); });
  check("tanh", [](Tile x, Tile) { return tanh(x); });
  check("erf", [](Tile x, Tile) { return erf(x); });
  check("sigmoid", [](Tile x, Tile) { return sigmoid(x); });
  check("fast_exp", [](Tile x, Tile) { return fast_exp(x); });
  check("fast_log", [](Tile, Tile y) { return fast_log(y); });
  check("fast_sigmoid", [](Tile x, Tile) { return fast_sigmoid(x); });
  check("fast_tanh", [](Tile x, Tile) { return fast_tanh(x); });
  check("fast_div", [](Tile x, Tile y) { return fast_div(x, y); });
}

TEST(CpuElementwise, IntegerArithmeticMatchesTheInterpreter) {
  for (DType type : {i8, i16, i32, i64}) {
    int64_t limit = type == i8 ? 11 : type == i16 ? 181 : 40000;
    std::vector<double> a = randomIntegers(kCount, 5, -limit, limit),
                        b = randomIntegers(kCount, 6, 1, limit);
    auto check = [&](const char* name, const Binary& op) {
      checkBinary(name, type, type, a, b, op, {0, 0});
    };
    check("add", [](Tile x, Tile y) { return x + y; });
    check("sub", [](Tile x, Tile y) { return x - y; });
    check("mul", [](Tile x, Tile y) { return x * y; });
    check("div", [](Tile x, Tile y) { return x / y; });
    check("rem", [](Tile x, Tile y) { return x % y; });
    check("min", [](Tile x, Tile y) { return min(x, y); });
    check("max", [](Tile x, Tile y) { return max(x, y); });
    check("and", [](Tile x, Tile y) { return x & y; });
    check("or", [](Tile x, Tile y) { return x | y; });
    check("xor", [](Tile x, Tile y) { return x ^ y; });
    check("shl", [](Tile x, Tile y) { return x << (y & 3); });
    check("shr", [](Tile x, Tile y) { return x >> (y & 3); });
    check("neg", [](Tile x, Tile) { return -x; });
    check("abs", [](Tile x, Tile) { return abs(x); });
    check("select", [](Tile x, Tile y) { return where(x >= y, x, y); });
    checkBinary("compare", type, i1, a, b, [](Tile x, Tile y) { return (x <= y) ^ (x != 3); });
  }
}

// Padding may contain a divisor of 0, which no element of the view has. The quotient is
// unspecified, but the process must not trap.
TEST(CpuElementwise, DivisionByZeroInPaddingDoesNotTrap) {
  std::vector<double> a = randomIntegers(kCount, 5, -9, 9), b = randomIntegers(kCount, 6, 1, 9);
  auto build = [&](KernelBuilder& k) {
    View out = k.view("out", i32, {dyn}), x = k.view("x", i32, {dyn}), y = k.view("y", i32, {dyn});
    Scalar i = k.program_id(0);
    Tile quotient = x.partition({kBlock}).load({i}) / y.partition({kBlock}).load({i});
    Tile inside = i * kBlock + k.arange(kBlock) < x.dim(0).to(i32);
    out.store({i}, sum(where(inside, quotient, 0)));
  };
  std::vector<int32_t> x(kCount), y(kCount), out(4);
  int32_t expected = 0, total = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    x[i] = static_cast<int32_t>(a[i]), y[i] = static_cast<int32_t>(b[i]);
    expected += x[i] / y[i];
  }
  CpuKernel(build).run(
      Slots().view(out.data(), {4}).view(x.data(), {kCount}).view(y.data(), {kCount}), {4});
  for (int32_t part : out) total += part;
  EXPECT_EQ(total, expected);
}

TEST(CpuElementwise, ConvertsBetweenAllTypes) {
  for (DType from : {i1, i8, i16, i32, i64, f16, bf16, f32}) {
    for (DType to : {i1, i8, i16, i32, i64, f16, bf16, f32}) {
      if (from == to) continue;
      bool isFloat = from == f16 || from == bf16 || from == f32;
      std::vector<double> a = from == i1 ? randomIntegers(kCount, 7, 0, 1)
                              : isFloat  ? randomNumbers(kCount, 7, -100, 100)
                                         : randomIntegers(kCount, 7, -100, 100);
      for (int64_t i = 0; i < kCount; i += 7) a[i] = 0;
      auto build = [&](KernelBuilder& k) {
        View out = k.view("out", to, {dyn}), x = k.view("x", from, {dyn});
        Scalar i = k.program_id(0);
        out.partition({kBlock}).store({i}, x.partition({kBlock}).load({i}).to(to));
        // Scalars use the same conversion.
        out.store({i}, x.load({i}).to(to));
      };
      SCOPED_TRACE(std::string(name(from)) + " to " + name(to));
      Case().out(to, {kCount}).view(from, a, {kCount}).check(build, {4}, {0, 0}, targets(2));
    }
  }
}

// Every f16 and bf16 value widens exactly, and a strided sample of f32 rounds to nearest even, with
// and without F16C.
TEST(CpuElementwise, HalvesRoundToNearestEven) {
  program::CompileOptions plain;
  plain.arch = "x86-64";
  for (const program::CompileOptions& options : {program::CompileOptions{}, plain}) {
    for (DType type : {f16, bf16}) {
      CpuKernel widen(
          [&](KernelBuilder& k) {
            View out = k.view("out", f32, {dyn}), x = k.view("x", type, {dyn});
            out.partition({4096}).store({k.program_id(0)},
                                        x.partition({4096}).load({k.program_id(0)}).to(f32));
          },
          options);
      std::vector<uint16_t> halves(65536);
      std::vector<float> floats(65536);
      for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
      widen.run(Slots().view(floats.data(), {65536}).view(halves.data(), {65536}), {16});
      for (size_t i = 0; i < halves.size(); ++i) {
        float expected = type == f16 ? fromF16(halves[i]) : fromBf16(halves[i]);
        ASSERT_TRUE(floats[i] == expected || (std::isnan(floats[i]) && std::isnan(expected)))
            << "bits " << i;
      }

      CpuKernel narrow(
          [&](KernelBuilder& k) {
            View out = k.view("out", type, {dyn}), x = k.view("x", f32, {dyn});
            out.partition({4096}).store({k.program_id(0)},
                                        x.partition({4096}).load({k.program_id(0)}).to(type));
          },
          options);
      constexpr uint32_t kStride = 4099 * 16 + 1;
      for (size_t i = 0; i < floats.size(); ++i) {
        uint32_t bits = static_cast<uint32_t>(i) * kStride;
        if (i % 4 == 0) bits = static_cast<uint32_t>(i) << 16 | 0x8000;  // ties of bf16
        if (i % 4 == 1) bits = static_cast<uint32_t>(i) << 16 | 0x1000;  // ties of f16
        std::memcpy(&floats[i], &bits, 4);
      }
      narrow.run(Slots().view(halves.data(), {65536}).view(floats.data(), {65536}), {16});
      for (size_t i = 0; i < floats.size(); ++i) {
        uint16_t expected = type == f16 ? toF16(floats[i]) : toBf16(floats[i]);
        if (std::isnan(floats[i]))
          ASSERT_TRUE(std::isnan(type == f16 ? fromF16(halves[i]) : fromBf16(halves[i])))
              << floats[i];
        else
          ASSERT_EQ(halves[i], expected) << floats[i];
      }
    }
  }
}

// Compares fp8 with the interpreter: encoding, decoding, moves of codes, and scalars.
TEST(CpuElementwise, ConvertsAndMovesFp8) {
  std::vector<double> numbers = randomNumbers(kCount, 5, -500, 500);
  const std::vector<double> edges{0.0,    -0.0,   448,    449,      -464,      1e9,     57344,
                                  61440,  -60000, 0x1p-9, 0x1p-10,  0x1p-16,   0x1p-17, 1.0625,
                                  1.1875, 1.125,  1.375,  INFINITY, -INFINITY, NAN};
  std::copy(edges.begin(), edges.end(), numbers.begin());
  for (size_t i = edges.size(); i < numbers.size(); ++i)
    numbers[i] = std::ldexp(numbers[i], -static_cast<int>(i % 19));
  for (DType type : {f8e4m3, f8e5m2}) {
    SCOPED_TRACE(name(type));
    const auto build = [&](KernelBuilder& k) {
      View narrow = k.view("narrow", type, {dyn}), wide = k.view("wide", f32, {dyn});
      View x = k.view("x", f32, {dyn}), coded = k.view("coded", type, {dyn});
      Scalar scale = k.scalar("scale", type), i = k.program_id(0);
      const auto load = [&](const View& view) { return view.partition({kBlock}).load({i}); };
      const Tile backwards = flip(load(coded));
      narrow.partition({kBlock}).store({i}, where(load(x) < 0.0f, backwards, load(x).to(type)));
      wide.partition({kBlock}).store({i}, load(coded).to(f32) * scale.to(f32));
    };
    Case()
        .out(type, {kCount})
        .out(f32, {kCount})
        .view(f32, numbers, {kCount})
        .view(type, numbers, {kCount})
        .scalar(type, -1.5)
        .check(build, {4}, {0, 0}, targets(4));
  }
}

}  // namespace
}  // namespace ligerdsl::testing::elementwise_test
