// Tests the reference interpreter against values computed by hand.
#include "interpreter/interpreter.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "evaluate.h"
#include "interpreter/access_log.h"
#include "interpreter/convert.h"

namespace ligerdsl {
namespace {

using interpreter::Arguments;
using interpreter::Grid;
using test::evaluate;
using Floats = std::vector<float>;

std::string error_of(const std::function<void()>& code) {
  try {
    code();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Convert, HalvesRoundTripThroughAllBits) {
  for (DType dtype : {f16, bf16}) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto in = static_cast<uint16_t>(bits);
      const double value = interpreter::read_float(dtype, &in);
      uint16_t out = 0;
      interpreter::write_float(dtype, &out, value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(interpreter::read_float(dtype, &out)));
      } else {
        ASSERT_EQ(out, in) << name(dtype);
        ASSERT_EQ(interpreter::round_to(dtype, value), value);
      }
    }
  }
}

// The interpreter has two NaNs per type. They differ in every bit that may vary in a NaN, so two
// runs that agree do not depend on such a bit.
TEST(Interpreter, SecondNanDiffersInEveryFreeBit) {
  struct Case {
    DType type, bits;
    uint32_t infinity, fraction;
  };
  for (const Case& c :
       {Case{f8e4m3, i8, 0x78, 0}, Case{f8e5m2, i8, 0x7c, 3}, Case{f16, i16, 0x7c00, 0x3ff},
        Case{bf16, i16, 0x7f80, 0x7f}, Case{f32, i32, 0x7f800000, 0x7fffff}}) {
    SCOPED_TRACE(name(c.type));
    KernelBuilder k("bits");
    View y = k.view("y", c.bits, {2}), x = k.view("x", c.type, {2});
    y.partition({2}).store({0}, bitcast(x.partition({2}).load({0}), c.bits));
    const program::Program program = k.finish();
    const auto bits_of_nan = [&](interpreter::NanBits which) {
      uint64_t in = 0, out = 0;
      interpreter::write_float(c.type, &in, NAN);
      interpreter::Arguments arguments;
      arguments.view(&out, c.bits, {2}, {1});
      arguments.view(&in, c.type, {2}, {1});
      interpreter::run(program, arguments, {}, {.nan_bits = which});
      EXPECT_EQ(out >> (8 * size_of(c.type)), 0u) << "bits beyond the type must be 0";
      return static_cast<uint32_t>(out);
    };
    const uint32_t first = bits_of_nan(interpreter::NanBits::first),
                   second = bits_of_nan(interpreter::NanBits::second);
    const uint32_t sign = uint32_t{1} << (8 * size_of(c.type) - 1);
    EXPECT_EQ(first ^ second, sign | c.fraction);
    for (const uint32_t bits : {first, second, bits_of_nan(interpreter::NanBits::usual)}) {
      EXPECT_TRUE(std::isnan(interpreter::read_float(c.type, &bits))) << bits;
      EXPECT_EQ(bits & c.infinity, c.infinity);
    }
  }
}

TEST(Convert, RoundsToNearestEven) {
  for (DType dtype : {f16, bf16}) {
    const uint16_t infinity = dtype == f16 ? 0x7c00 : 0x7f80;
    for (uint16_t bits = 0; bits + 1 < infinity; ++bits) {
      const auto next = static_cast<uint16_t>(bits + 1);
      const double a = interpreter::read_float(dtype, &bits),
                   b = interpreter::read_float(dtype, &next);
      const double middle = (a + b) / 2;
      ASSERT_EQ(interpreter::round_to(dtype, middle), bits % 2 == 0 ? a : b);
      ASSERT_EQ(interpreter::round_to(dtype, std::nextafter(middle, 0.0)), a);
      ASSERT_EQ(interpreter::round_to(dtype, -std::nextafter(middle, INFINITY)), -b);
    }
  }
  EXPECT_EQ(interpreter::round_to(f16, 65519.0), 65504.0);
  EXPECT_EQ(interpreter::round_to(f16, 65520.0), INFINITY);
  EXPECT_EQ(interpreter::round_to(f32, 1e300), INFINITY);
}

TEST(Interpreter, ArithmeticStaysInDouble) {
  // 1 + 2^-30 - 1 survives in double, not in f32.
  const auto body = [](KernelBuilder&, Tile x) { return (x + 9.313225746154785e-10f) - 1.0f; };
  EXPECT_EQ(evaluate({1.0f}, body), Floats{9.313225746154785e-10f});
  EXPECT_EQ(evaluate({1.0f}, body, {.round_every_op = true}), Floats{0.0f});
}

TEST(Interpreter, RoundingEveryOpIsIeeeSinglePrecision) {
  std::mt19937 random(3);
  std::vector<float> values;
  for (int i = 0; i < 1024; ++i)
    values.push_back(std::ldexp(static_cast<float>(random() % 16777216 + 1),
                                static_cast<int>(random() % 40) - 40));
  const auto out =
      evaluate(values, [](KernelBuilder&, Tile x) { return sqrt(x * 1.7f + 0.3f) / (x - 0.1f); },
               {.round_every_op = true});
  for (size_t i = 0; i < values.size(); ++i) {
    const volatile float product = values[i] * 1.7f;
    const volatile float sum = product + 0.3f;
    const volatile float root = std::sqrt(sum);
    const volatile float divisor = values[i] - 0.1f;
    ASSERT_EQ(out[i], root / divisor) << values[i];
  }
}

TEST(Interpreter, MinMaxPropagateNanAndComparisonsAreOrdered) {
  const auto nan =
      evaluate({NAN, 1.0f}, [](KernelBuilder&, Tile x) { return min(x, 0.0f) + max(0.0f, x); });
  EXPECT_TRUE(std::isnan(nan[0]));
  EXPECT_EQ(nan[1], 1.0f);
  EXPECT_EQ(evaluate({NAN, 1.0f}, [](KernelBuilder&, Tile x) { return (x < 2.0f).to(f32); }),
            (Floats{0, 1}));
  EXPECT_EQ(evaluate({NAN, 1.0f}, [](KernelBuilder&, Tile x) { return (x != x).to(f32); }),
            (Floats{1, 0}));
  EXPECT_EQ(evaluate({NAN, 1.0f}, [](KernelBuilder&, Tile x) { return (x == x).to(f32); }),
            (Floats{0, 1}));
}

TEST(Interpreter, IntegersWrapAndDivideTowardZero) {
  EXPECT_EQ(evaluate({-7.0f, 7.0f}, [](KernelBuilder&, Tile x) { return x.to(i32) / 2; }),
            (Floats{-3, 3}));
  EXPECT_EQ(evaluate({-7.0f, 7.0f}, [](KernelBuilder&, Tile x) { return x.to(i32) % 4; }),
            (Floats{-3, 3}));
  EXPECT_EQ(evaluate({-7.0f, 7.0f}, [](KernelBuilder&, Tile x) { return x.to(i32) >> 1; }),
            (Floats{-4, 3}));
  EXPECT_EQ(evaluate({100.0f}, [](KernelBuilder&, Tile x) { return x.to(i8) + 100; }), Floats{-56});
  EXPECT_EQ(evaluate({1.0f}, [](KernelBuilder&, Tile x) { return ~x.to(i32); }), Floats{-2});
  EXPECT_EQ(evaluate({5.0f, 0.0f}, [](KernelBuilder&, Tile x) { return (!(x > 1.0f)).to(i32); }),
            (Floats{0, 1}));
}

TEST(Interpreter, CastsTruncateAndSaturate) {
  EXPECT_EQ(evaluate({2.9f, -2.9f, 0.5f, 0.0f}, [](KernelBuilder&, Tile x) { return x.to(i64); }),
            (Floats{2, -2, 0, 0}));
  EXPECT_EQ(evaluate({3e9f, -3e9f, NAN, 1}, [](KernelBuilder&, Tile x) { return x.to(i32); }),
            (Floats{2147483648.0f, -2147483648.0f, 0, 1}));
  EXPECT_EQ(evaluate({0.5f, 0.0f}, [](KernelBuilder&, Tile x) { return x.to(i1); }),
            (Floats{1, 0}));
  EXPECT_EQ(evaluate({1.00390625f}, [](KernelBuilder&, Tile x) { return x.to(bf16); }),
            Floats{1.0f});
}

TEST(Interpreter, ShapeOpsReorderRowMajor) {
  const Floats in{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(evaluate(in,
                     [](KernelBuilder&, Tile x) {
                       return x.reshape({2, 4}).permute({1, 0});
                     }),
            (Floats{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(evaluate({1, 2},
                     [](KernelBuilder&, Tile x) {
                       return x.expand_dims(1).broadcast_to({2, 4});
                     }),
            (Floats{1, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(evaluate({1, 2},
                     [](KernelBuilder&, Tile x) {
                       return x.expand_dims(0).broadcast_to({4, 2});
                     }),
            (Floats{1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(evaluate(in,
                     [](KernelBuilder&, Tile x) {
                       return x.reshape({2, 2, 2}).permute({2, 0, 1});
                     }),
            (Floats{0, 2, 4, 6, 1, 3, 5, 7}));
}

TEST(Interpreter, ReducesAndScans) {
  const Floats in{3, 1, 4, 1, 5, 9, 2, 6};
  EXPECT_EQ(evaluate(in, [](KernelBuilder&, Tile x) { return sum(x); }), Floats{31});
  EXPECT_EQ(evaluate(in,
                     [](KernelBuilder&, Tile x) {
                       return sum(x.reshape({2, 4}), 0);
                     }),
            (Floats{8, 10, 6, 7}));
  EXPECT_EQ(evaluate(in,
                     [](KernelBuilder&, Tile x) {
                       return reduce_max(x.reshape({2, 4}), 1);
                     }),
            (Floats{4, 9}));
  EXPECT_EQ(evaluate(in,
                     [](KernelBuilder&, Tile x) {
                       return reduce_min(x.reshape({2, 4}), -1);
                     }),
            (Floats{1, 2}));
  EXPECT_EQ(evaluate(in, [](KernelBuilder&, Tile x) { return cumsum(x); }),
            (Floats{3, 4, 8, 9, 14, 23, 25, 31}));
  EXPECT_EQ(evaluate(in,
                     [](KernelBuilder&, Tile x) {
                       return cumsum(x.reshape({2, 4}), 1, true);
                     }),
            (Floats{9, 6, 5, 1, 22, 17, 8, 6}));
  EXPECT_EQ(evaluate(in,
                     [](KernelBuilder&, Tile x) {
                       return scan({x}, 0, [](Scalar a, Scalar b) { return max(a, b); })[0];
                     }),
            (Floats{3, 3, 4, 4, 5, 9, 9, 9}));
}

TEST(Interpreter, ArgmaxTakesTheLowestIndexOnTies) {
  const Floats in{3, 9, 4, 9, 1, 1, 2, 6};
  EXPECT_EQ(evaluate(in, [](KernelBuilder&, Tile x) { return argmax(x); }), Floats{1});
  EXPECT_EQ(evaluate(in, [](KernelBuilder&, Tile x) { return argmin(x); }), Floats{4});
  EXPECT_EQ(evaluate(in,
                     [](KernelBuilder&, Tile x) {
                       return argmax(x.reshape({2, 4}), 1);
                     }),
            (Floats{1, 3}));
  EXPECT_EQ(evaluate(in,
                     [](KernelBuilder&, Tile x) {
                       return argmax(x.reshape({2, 4}), 0);
                     }),
            (Floats{0, 0, 0, 0}));
  EXPECT_EQ(evaluate(in,
                     [](KernelBuilder&, Tile x) {
                       return argmin(x.reshape({4, 2}), 0);
                     }),
            (Floats{2, 2}));
}

TEST(Interpreter, ReducesSeveralValuesTogether) {
  // The combiner merges the mean and the sum of squared deviations of two sets.
  const auto out = evaluate({1, 2, 3, 4}, [](KernelBuilder& k, Tile x) {
    auto [n, mean, m2] =
        reduce({k.ones({4}, f32), x, k.zeros({4}, f32)},
               [](Scalar na, Scalar ma, Scalar sa, Scalar nb, Scalar mb, Scalar sb) {
                 Scalar n = na + nb;
                 Scalar delta = mb - ma;
                 return carry(n, ma + delta * nb / n, sa + sb + delta * delta * na * nb / n);
               });
    return mean * 100.0f + m2;
  });
  EXPECT_EQ(out, Floats{255});
}

TEST(Interpreter, RunsLoopsAndBranches) {
  EXPECT_EQ(evaluate({0},
                     [](KernelBuilder& k, Tile) {
                       auto [a, b] = k.for_range(
                           0, 10, 3, carry(k.constant(0, i32), k.constant(1, i32)),
                           [](Scalar i, Scalar a, Scalar b) { return carry(b, a + i); });
                       return a * 100 + b;
                     }),
            Floats{613});
  EXPECT_EQ(evaluate({0},
                     [](KernelBuilder& k, Tile) {
                       auto [n, steps] = k.while_(
                           carry(k.constant(27, i64), k.constant(0, i64)),
                           [](Scalar n, Scalar) { return n != 1; },
                           [&](Scalar n, Scalar steps) {
                             Scalar next = k.if_(
                                 n % 2 == 0, [&] { return n / 2; }, [&] { return n * 3 + 1; });
                             return carry(next, steps + 1);
                           });
                       return steps;
                     }),
            Floats{111});
}

TEST(Interpreter, PartitionsPadAndClip) {
  KernelBuilder k("pad");
  View x = k.view("x", bf16, {dyn, dyn});
  View y = k.view("y", f32, {dyn, dyn}, {.strides = {dyn, dyn}});
  Scalar i = k.program_id(0), j = k.program_id(1);
  y.partition({4, 4}).store({i, j}, x.partition({4, 4}).load({i, j}, {.pad = -1}).to(f32));
  const program::Program program = k.finish();
  std::vector<uint16_t> in(5 * 6, std::bit_cast<uint32_t>(2.0f) >> 16);
  std::vector<float> out(7 * 8, -77.0f);  // [7, 7], column-major, with a canary after each column
  Arguments arguments;
  arguments.view(in.data(), bf16, {5, 6}, {6, 1});
  arguments.view(out.data(), f32, {7, 7}, {1, 8});
  interpreter::run(program, arguments, Grid{2, 2, 1});
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 7; ++column) {
      const float expected = row == 7 ? -77.0f : row < 5 && column < 6 ? 2.0f : -1.0f;
      EXPECT_EQ(out[column * 8 + row], expected) << row << ", " << column;
    }
  }
}

TEST(Interpreter, RunsGatherScatterAndAtomics) {
  KernelBuilder k("gather");
  Ptr table = k.ptr("table", i32);
  Ptr counts = k.ptr("counts", i64);
  Scalar n = k.scalar("n", i32);
  Tile i = k.arange(8);
  Tile value = load(table + i * 2, i < n, -5);
  store(table + i, value + 100, i < 2);
  atomic_add(counts + (value & 1).to(i64), 1);
  atomic_max(counts + 2, n.to(i64));
  const program::Program program = k.finish();
  std::vector<int32_t> memory{10, 11, 12, 13, 14, 15};
  std::vector<int64_t> counted{0, 0, -9};
  Arguments arguments;
  arguments.pointer(memory.data(), 4 * memory.size());
  arguments.pointer(counted.data(), 8 * counted.size());
  arguments.scalar(i32, int64_t{3});
  interpreter::run(program, arguments, {});
  EXPECT_EQ(memory, (std::vector<int32_t>{110, 112, 12, 13, 14, 15}));
  EXPECT_EQ(counted, (std::vector<int64_t>{3, 5, 3}));
}

TEST(Interpreter, WideMemoryKeepsDoubles) {
  KernelBuilder k("wide");
  View x = k.view("x", bf16, {dyn});
  Ptr y = k.ptr("y", f16);
  Ptr n = k.ptr("n", i8);
  Tile t = x.partition({2}).load({0});
  store(y + k.arange(2), t.to(f32).to(f16));
  atomic_add(y + 1, 1.0f);
  store(n, load(n + 1) + 100);
  const program::Program program = k.finish();
  std::vector<double> in{1.0 + 0x1p-40, 0x1p-200}, out(2);
  std::vector<int64_t> counts{0, 100};
  Arguments arguments(Arguments::Memory::wide);
  arguments.view(in.data(), bf16, {2}, {1});
  arguments.pointer(out.data(), 16);
  arguments.pointer(counts.data(), 16);
  interpreter::run(program, arguments, {}, {.round_casts = false});
  EXPECT_EQ(out, (std::vector<double>{1.0 + 0x1p-40, 1.0}));
  EXPECT_EQ(counts[0], -56);
  interpreter::run(program, arguments, {});
  EXPECT_EQ(out, (std::vector<double>{1.0, 1.0}));
}

TEST(Interpreter, UndefinedBehaviourIsAnErrorAtTheAuthorsLine) {
  const auto failing = [](auto body) {
    return error_of([&] {
      evaluate({1, 2}, [&](KernelBuilder& k, Tile x) {
        body(k, x);
        return x;
      });
    });
  };
  const auto expect = [](const std::string& text, int line, const std::string& message) {
    EXPECT_NE(text.find(":" + std::to_string(line) + ":"), std::string::npos) << text;
    EXPECT_NE(text.find(message), std::string::npos) << text;
  };
  expect(failing([](KernelBuilder&, Tile x) { x.to(i32) / 0; }), __LINE__, "div: division by zero");
  expect(failing([](KernelBuilder&, Tile x) { x.to(i32) << (x.to(i32) + 39); }), __LINE__,
         "shl: expected a shift by 0 to 31 bits, got 40");
  expect(failing([](KernelBuilder&, Tile x) { 8 % (x.to(i32) - 2); }), __LINE__,
         "rem: division by zero in element 1; if the divisor is outside its view, load it "
         "with {.pad = 1}");
  expect(failing([](KernelBuilder&, Tile x) { assume(sum(x) > 5.0f); }), __LINE__,
         "assume: the assumption does not hold");
  const auto odd = [](KernelBuilder&, Tile x) { (void)assume_divisible(sum(x).to(i32), 2); };
  expect(failing(odd), __LINE__ - 1, "assume_divisible: 3 is not a multiple of 2");
  const auto overflow = [](KernelBuilder& k, Tile) {
    k.for_range(0, k.constant(INT32_MAX - 1, i32), 1 << 30, [](Scalar) {});
  };
  expect(failing(overflow), __LINE__ - 2,
         "for_range: the counter 1073741824 plus the step 1073741824 exceeds i32");
  KernelBuilder k("wild");
  Ptr p = k.ptr("p", f32);
  load(p + 4);
  const program::Program program = k.finish();
  std::vector<float> memory(4);
  Arguments arguments;
  arguments.pointer(memory.data(), 16);
  expect(error_of([&] { interpreter::run(program, arguments, {}); }), __LINE__ - 5,
         "outside the memory of the arguments");
  EXPECT_NE(
      error_of([&] { interpreter::run(program, {}, {}); }).find("takes 1 argument slots, got 0"),
      std::string::npos);
}

// Returns a program whose second loop reads block 2 - i of a resident row, then stores to y. With
// `ahead` = 0 it stores to the block just read; with 1, to the block that the next iteration reads.
program::Program rewritten_row(int ahead) {
  KernelBuilder k("rewritten");
  View x = k.view("x", f32, {dyn}), y = k.view("y", f32, {dyn});
  Resident row = x.partition({4}).resident({});
  auto [total] = k.for_range(0, 3, 1, carry(k.zeros({4}, f32)),
                             [&](Scalar i, Tile total) { return carry(total + row.load(i)); });
  Tile sums = total;
  k.for_range(0, 3, 1, [&](Scalar i) {
    Tile block = row.load(2 - i);
    y.partition({4}).store({2 - i - ahead}, block + sums);
  });
  return k.finish();
}

TEST(Interpreter, WriteToResidentRowBetweenLoadsIsAnError) {
  std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  Arguments arguments;
  for (int view = 0; view < 2; ++view) arguments.view(x.data(), f32, {12}, {1});
  interpreter::run(rewritten_row(0), arguments, {});
  EXPECT_EQ(x[0], 1 + 15.0f) << "a store in place, after the block's last load, is allowed";
  const std::string error = error_of([&] { interpreter::run(rewritten_row(1), arguments, {}); });
  EXPECT_NE(error.find("interpreter_test.cpp:"), std::string::npos) << error;
  EXPECT_NE(error.find("load_tile: this block of a resident row was written after its first load"),
            std::string::npos)
      << error;
}

// Runs two programs. Each sets y[program * at] to x[program + from] + program, or to 3 if
// `same_value`. View x starts at the second element of y.
std::string race_of(int at, int from, bool find_races = true, bool same_value = false) {
  KernelBuilder k("racing");
  View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
  Scalar program = k.program_id(0);
  Scalar value = same_value ? k.constant(3, f32) : x.load({program + from}) + program.to(f32);
  y.store({program * at}, value);
  std::vector<float> memory(8, 1.0f);
  Arguments arguments;
  arguments.view(memory.data(), f32, {8}, {1});
  arguments.view(memory.data() + 1, f32, {7}, {1});
  const program::Program program_ = k.finish();
  return error_of([&] {
    interpreter::run(program_, arguments, Grid{2, 1, 1}, {.find_races = find_races});
  });
}

TEST(Interpreter, FindsRacesIfRequested) {
  EXPECT_EQ(race_of(1, 2), "no error");
  EXPECT_EQ(race_of(0, 2, true, true), "no error")
      << "programs that write the same value do not race";
  EXPECT_EQ(race_of(0, 2, false), "no error");
  const std::string twice = race_of(0, 2), read = race_of(2, 1), unwritten = race_of(2, 0);
  EXPECT_NE(twice.find("interpreter_test.cpp:"), std::string::npos) << twice;
  EXPECT_NE(
      twice.find(
          "store_tile: program 0 writes this element and program 1 writes another value to it"),
      std::string::npos)
      << twice;
  EXPECT_NE(read.find("program 0 reads this element and program 1 writes it"), std::string::npos)
      << read;
  EXPECT_EQ(unwritten, "no error") << "no program writes the elements that are read";
}

TEST(Interpreter, PlainAccessRacesWithAtomic) {
  const auto run = [](bool loads) {
    KernelBuilder k("counting");
    Ptr p = k.ptr("p", i32);
    Scalar old = loads ? load(p) : k.constant(0, i32);
    atomic_add(p, old + 1);
    const program::Program program = k.finish();
    int32_t count = 0;
    Arguments arguments;
    arguments.pointer(&count, sizeof count);
    return error_of([&] {
      interpreter::run(program, arguments, Grid{1, 3, 1}, {.find_races = true});
    });
  };
  EXPECT_EQ(run(false), "no error");
  const std::string error = run(true);
  EXPECT_NE(error.find("load: program 0 updates this element and program 1 reads it"),
            std::string::npos)
      << error;
}

TEST(Interpreter, StoreOfAnyValueRacesWithAtomic) {
  KernelBuilder k("store_and_atomic");
  Ptr p = k.ptr("p", i32);
  k.if_(k.program_id(0) == 0, [&] { atomic_add(p, 5); });
  k.if_(k.program_id(0) == 1, [&] { store(p, k.constant(5, i32)); });
  const program::Program program = k.finish();
  int32_t count = 0;
  Arguments arguments;
  arguments.pointer(&count, sizeof count);
  const std::string error = error_of([&] {
    interpreter::run(program, arguments, Grid{2, 1, 1}, {.find_races = true});
  });
  EXPECT_NE(error.find("program 0 updates this element and program 1 writes it"), std::string::npos)
      << error;
}

// An f32 view and an i8 view share memory. The interpreter must find a race on one byte of the f32.
TEST(Interpreter, FindsRacesOfPartialElements) {
  KernelBuilder k("parts");
  View y = k.view("y", f32, {dyn}), x = k.view("x", i8, {dyn}), z = k.view("z", i8, {dyn});
  k.if_(k.program_id(0) == 0, [&] { y.store({0}, 1.0f); });
  k.if_(k.program_id(0) == 1, [&] { z.store({0}, x.load({2})); });
  const program::Program program = k.finish();
  float memory = 0;
  int8_t copy = 0;
  Arguments arguments;
  arguments.view(&memory, f32, {1}, {1});
  arguments.view(&memory, i8, {4}, {1});
  arguments.view(&copy, i8, {1}, {1});
  const std::string error = error_of([&] {
    interpreter::run(program, arguments, Grid{2, 1, 1}, {.find_races = true});
  });
  EXPECT_NE(error.find("program 0 writes this element and program 1 reads it"), std::string::npos)
      << error;
}

TEST(Interpreter, AccessLogFindsUnwrittenElements) {
  KernelBuilder k("partly");
  View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn}), z = k.view("z", f32, {dyn});
  y.partition({4}).store({k.program_id(0)}, x.partition({4}).load({0}));
  atomic_max(z.ptr(), 1.0f);
  const program::Program program = k.finish();
  std::vector<float> memory(22);
  Arguments arguments;
  for (const int64_t at : {0, 10, 20})
    arguments.view(memory.data() + at, f32, {at == 20 ? 2 : 10}, {1});
  interpreter::AccessLog log(program, arguments);
  interpreter::run(program, arguments, Grid{2, 1, 1}, {}, &log);
  EXPECT_EQ(log.unwritten(memory.data(), 10, 4).elements, 2);
  EXPECT_EQ(log.unwritten(memory.data(), 10, 4).first, 8);
  EXPECT_EQ(log.unwritten(memory.data() + 10, 10, 4).elements, 0)
      << "elements that a program reads do not count as unwritten";
  EXPECT_EQ(log.unwritten(memory.data() + 20, 2, 4).elements, 0)
      << "elements that an atomic updates do not count as unwritten";
}

// The interpreter must reject the same aliases as a launch (tests/abi/execute_test.cpp).
TEST(Interpreter, RejectsTheAliasesThatALaunchRejects) {
  const auto run = [](bool read_only, bool no_alias, int64_t distance,
                      std::vector<int64_t> strides) {
    KernelBuilder k("aliased");
    View y = k.view("y", f32, {dyn, dyn}, {.strides = {dyn, dyn}});
    View x = k.view("x", f32, {dyn}, {.read_only = read_only});
    y.store({0, 0}, x.load({0}));
    const program::Program program = k.finish();
    std::vector<float> memory(32);
    Arguments arguments;
    arguments.view(memory.data(), f32, {2, 4}, strides);
    arguments.view(memory.data() + distance, f32, {8}, {1});
    return error_of([&] { interpreter::run(program, arguments, {}, {.no_alias = no_alias}); });
  };
  EXPECT_EQ(run(false, false, 4, {4, 1}), "no error");
  EXPECT_EQ(run(true, true, 8, {4, 1}), "no error");
  EXPECT_EQ(run(true, false, 4, {4, 1}),
            "error: program aliased: `y` shares memory with `x`, but the kernel declares that view "
            "read_only; pass "
            "separate memory, or declare it without read_only");
  EXPECT_NE(run(false, true, 4, {4, 1}).find("created with no_alias"), std::string::npos);
  EXPECT_NE(run(false, false, 8, {2, 1})
                .find("`y`: the kernel writes this view, but two of its indices refer to"),
            std::string::npos);
}

TEST(Interpreter, IntegersAreRoundedOnce) {
  const auto as_bf16 = [](int64_t value) {
    KernelBuilder k("narrow");
    Scalar n = k.scalar("n", i64);
    View y = k.view("y", i64, {1});
    y.store({0}, n.to(bf16).to(i64));
    const program::Program program = k.finish();
    int64_t result = 0;
    Arguments arguments;
    arguments.scalar(i64, value);
    arguments.view(&result, i64, {1}, {1});
    interpreter::run(program, arguments, {});
    return result;
  };
  const int64_t tie = (int64_t{1} << 62) + (int64_t{1} << 54);  // halfway from 2^62 to 2^62 + 2^55
  EXPECT_EQ(as_bf16(tie), int64_t{1} << 62);
  EXPECT_EQ(as_bf16(tie + 1), (int64_t{1} << 62) + (int64_t{1} << 55))
      << "rounding to double first would lose the 1";
  EXPECT_EQ(as_bf16(-tie - 1), -(int64_t{1} << 62) - (int64_t{1} << 55));
  EXPECT_EQ(as_bf16(tie + (int64_t{1} << 55) - 1), (int64_t{1} << 62) + (int64_t{1} << 55));
  EXPECT_EQ(as_bf16(INT64_MAX), INT64_MAX) << "2^63 in bf16 must saturate in i64";
  EXPECT_EQ(as_bf16(INT64_MIN), INT64_MIN);
  EXPECT_EQ(as_bf16(-7), -7);
}

TEST(Interpreter, PrintsValues) {
  std::vector<std::string> lines;
  evaluate({1.5f, -2},
           [](KernelBuilder&, Tile x) {
             device_print("x =", {x, sum(x)});
             return x;
           },
           {.print = [&](const std::string& line) { lines.push_back(line); }});
  EXPECT_EQ(lines, std::vector<std::string>{"x = [1.5, -2] [-0.5]"});
}

}  // namespace
}  // namespace ligerdsl
