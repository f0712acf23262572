// Compares bit operations on integers with C++, on numbers with different signed and unsigned
// results.
#include <bit>
#include <functional>
#include <limits>
#include <random>

#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::integer_test {
namespace {

using kernels::Step;
using Words = std::vector<int64_t>;

const Words kNumbers = {
    0,  1,  2,  3,     7,    31, 1000, 0x7ffffffe, INT32_MAX, INT32_MIN, INT32_MIN + 1,
    -1, -2, -7, -1000, 65537};
const Words kLongNumbers = {0,
                            1,
                            3,
                            7,
                            1LL << 31,
                            (1LL << 32) - 1,
                            1LL << 32,
                            INT64_MAX,
                            INT64_MIN,
                            INT64_MIN + 1,
                            -1,
                            -2,
                            -1000,
                            0x123456789abcdef,
                            -0x123456789abcdef,
                            1000003};

using Function = std::function<Tile(const Tile&, const Tile&)>;

// Returns f of all pairs (a, b).
Words evaluate(DType type, const Words& a, const Words& b, DType result, const Function& f) {
  KernelBuilder k("integers");
  const int64_t n = static_cast<int64_t>(a.size());
  {
    View y = k.view("y", result, {n, n}), va = k.view("a", type, {n}), vb = k.view("b", type, {n});
    const Tile column = va.partition({n}).load({0}).expand_dims(1).broadcast_to({n, n});
    const Tile row = vb.partition({n}).load({0}).expand_dims(0).broadcast_to({n, n});
    y.partition({n, n}).store({0, 0}, f(column, row));
  }
  const Step step{.program = k.finish(), .launch = kernels::library_launch(1, 4)};
  Tensor ta = Tensor(type, {n}).fill(a), tb = Tensor(type, {n}).fill(b), y(result, {n, n});
  expect_aligned([&] {
    backend().run({.steps = {step}}, n, Arguments().tensor("y", y).tensor("a", ta).tensor("b", tb));
  });
  Words out;
  for (int64_t i = 0; i < n * n; ++i) out.push_back(y.get_integer(i));
  return out;
}

// Compares f with `expected` for all pairs of numbers, converted to the C++ type U.
template <class U, class Expected>
void check(const char* what, DType type, const Words& numbers, const Words& others, DType result,
           const Function& f, Expected expected) {
  const Words found = evaluate(type, numbers, others, result, f);
  for (size_t i = 0; i < numbers.size(); ++i) {
    for (size_t j = 0; j < others.size(); ++j) {
      const auto a = static_cast<U>(numbers[i]), b = static_cast<U>(others[j]);
      const auto right =
          result == i1 || result == i8
              ? static_cast<int64_t>(expected(a, b))
              : static_cast<int64_t>(static_cast<std::make_signed_t<U>>(expected(a, b)));
      EXPECT_EQ(found[i * others.size() + j], right)
          << what << " of " << numbers[i] << " and " << others[j];
    }
  }
}

Words without_zero(Words numbers) {
  for (int64_t& number : numbers) number = number == 0 ? 5 : number;
  return numbers;
}

template <class U>
void check_unsigned(DType type, const Words& numbers) {
  const Words divisors = without_zero(numbers);
  check<U>(
      "udiv", type, numbers, divisors, type,
      [](const Tile& a, const Tile& b) { return udiv(a, b); },
      [](U a, U b) { return static_cast<U>(a / b); });
  check<U>(
      "urem", type, numbers, divisors, type,
      [](const Tile& a, const Tile& b) { return urem(a, b); },
      [](U a, U b) { return static_cast<U>(a % b); });
  check<U>(
      "umulhi", type, numbers, numbers, type,
      [](const Tile& a, const Tile& b) { return umulhi(a, b); },
      [](U a, U b) {
        return static_cast<U>((static_cast<unsigned __int128>(a) * b) >> (8 * sizeof(U)));
      });
  const auto compare = [&](const char* what, const Function& f, auto holds) {
    check<U>(
        what, type, numbers, numbers, i8,
        [&](const Tile& a, const Tile& b) { return f(a, b).to(i8); }, holds);
  };
  compare(
      "ult", [](const Tile& a, const Tile& b) { return ult(a, b); },
      [](U a, U b) { return a < b; });
  compare(
      "ule", [](const Tile& a, const Tile& b) { return ule(a, b); },
      [](U a, U b) { return a <= b; });
  compare(
      "ugt", [](const Tile& a, const Tile& b) { return ugt(a, b); },
      [](U a, U b) { return a > b; });
  compare(
      "uge", [](const Tile& a, const Tile& b) { return uge(a, b); },
      [](U a, U b) { return a >= b; });
}

TEST(Integers, Unsigned32Bits) {
  check_unsigned<uint32_t>(i32, kNumbers);
}
TEST(Integers, Unsigned64Bits) {
  check_unsigned<uint64_t>(i64, kLongNumbers);
}

TEST(Integers, ShiftsFillWithZerosOrTheSign) {
  Words by(16), by64(16), small, by8(16);
  for (int i = 0; i < 16; ++i) {
    by[i] = i * 2 + i % 2;
    by64[i] = i * 4 + i % 4;
    by8[i] = i % 8;
    small.push_back(i % 2 ? -128 + i * 7 : 127 - i * 3);
  }
  by[15] = 31, by64[15] = 63;
  const Function logical = [](const Tile& a, const Tile& b) { return lshr(a, b); };
  check<uint32_t>("lshr", i32, kNumbers, by, i32, logical,
                  [](uint32_t a, uint32_t b) { return a >> b; });
  check<uint64_t>("lshr", i64, kLongNumbers, by64, i64, logical,
                  [](uint64_t a, uint64_t b) { return a >> b; });
  const Words found = evaluate(i8, small, by8, i8, logical);
  for (size_t i = 0; i < 16; ++i) {
    for (size_t j = 0; j < 16; ++j)
      EXPECT_EQ(found[i * 16 + j], static_cast<int8_t>(static_cast<uint8_t>(small[i]) >> by8[j]))
          << small[i];
  }
  Words words, by16(16);
  for (int i = 0; i < 16; ++i)
    words.push_back(i % 2 ? -32768 + i * 1777 : 32767 - i * 333), by16[i] = i;
  const Words found16 = evaluate(i16, words, by16, i16, logical);
  for (size_t i = 0; i < 16; ++i) {
    for (size_t j = 0; j < 16; ++j)
      EXPECT_EQ(found16[i * 16 + j],
                static_cast<int16_t>(static_cast<uint16_t>(words[i]) >> by16[j]))
          << words[i];
  }
  check<int32_t>(
      ">>", i32, kNumbers, by, i32, [](const Tile& a, const Tile& b) { return a >> b; },
      [](int32_t a, int32_t b) { return a >> b; });
}

// Returns the nearest number with `bits` significant bits, ties to even, clamped to the range of
// i64.
int64_t rounded_to_bits(int64_t value, int bits) {
  const bool negative = value < 0;
  const uint64_t size = negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const int dropped = std::max(0, 64 - std::countl_zero(size) - bits);
  if (dropped == 0) return value;
  const uint64_t half = uint64_t{1} << (dropped - 1), rest = size & (2 * half - 1);
  uint64_t kept = size >> dropped;
  kept += rest > half || (rest == half && kept % 2 == 1);
  const auto result = static_cast<unsigned __int128>(kept) << dropped;
  if (result >= uint64_t{1} << 63) return negative ? INT64_MIN : INT64_MAX;
  return negative ? -static_cast<int64_t>(result) : static_cast<int64_t>(result);
}

// Integers of 8 and 16 bits: loads and stores, wrapping arithmetic, and extension with and without
// sign.
template <class T>
void check_narrow(DType type) {
  using U = std::make_unsigned_t<T>;
  const int64_t most = std::numeric_limits<T>::max();
  const Words numbers = {0,    1,         2,     3,  7,  31, most / 3,  most - 1,
                         most, -most - 1, -most, -1, -2, -7, -most / 2, most / 2 + 1};
  Words divisors = without_zero(numbers);
  std::replace(divisors.begin(), divisors.end(), int64_t{-1},
               int64_t{9});  // smallest / -1 is unspecified
  const auto expect = [&](const char* what, const Words& others, DType result, const Function& f,
                          auto expected) {
    const Words found = evaluate(type, numbers, others, result, f);
    for (size_t i = 0; i < numbers.size(); ++i) {
      for (size_t j = 0; j < others.size(); ++j)
        EXPECT_EQ(found[i * others.size() + j],
                  expected(static_cast<T>(numbers[i]), static_cast<T>(others[j])))
            << name(type) << ": " << what << " of " << numbers[i] << " and " << others[j];
    }
  };
  expect(
      "+", numbers, type, [](const Tile& a, const Tile& b) { return a + b; },
      [](T a, T b) { return T(U(a) + U(b)); });
  expect(
      "-", numbers, type, [](const Tile& a, const Tile& b) { return a - b; },
      [](T a, T b) { return T(U(a) - U(b)); });
  expect(
      "*", numbers, type, [](const Tile& a, const Tile& b) { return a * b; },
      [](T a, T b) { return T(U(a) * U(b)); });
  expect(
      "/", divisors, type, [](const Tile& a, const Tile& b) { return a / b; },
      [](T a, T b) { return T(a / b); });
  expect(
      "%", divisors, type, [](const Tile& a, const Tile& b) { return a % b; },
      [](T a, T b) { return T(a % b); });
  expect(
      "min, max", numbers, type,
      [](const Tile& a, const Tile& b) { return min(a, b) ^ max(a, -b); },
      [](T a, T b) { return T(std::min(a, b) ^ std::max(a, T(-b))); });
  expect(
      "<", numbers, i1, [](const Tile& a, const Tile& b) { return a < b; },
      [](T a, T b) { return a < b; });
  expect(
      "ult", numbers, i1, [](const Tile& a, const Tile& b) { return ult(a, b); },
      [](T a, T b) { return U(a) < U(b); });
  expect(
      "widened", numbers, i32,
      [](const Tile& a, const Tile& b) { return a.to(i32) * 3 - b.to(i64).to(i32); },
      [](T a, T b) { return a * 3 - b; });
  expect(
      "narrowed", numbers, type,
      [&](const Tile& a, const Tile& b) { return (a.to(i32) * b.to(i32)).to(type); },
      [](T a, T b) { return T(a * b); });
  expect(
      "through f32", numbers, type, [&](const Tile& a, const Tile&) { return a.to(f32).to(type); },
      [](T a, T) { return a; });
  expect(
      "through f16", numbers, type, [&](const Tile& a, const Tile&) { return a.to(f16).to(type); },
      [most](T a, T) { return std::min<int64_t>(rounded_to_bits(a, 11), most); });
  expect(
      "through bf16", numbers, type,
      [&](const Tile& a, const Tile&) { return a.to(bf16).to(type); },
      [most](T a, T) { return std::min<int64_t>(rounded_to_bits(a, 8), most); });
  expect(
      "sum", numbers, type,
      [n = std::ssize(numbers)](const Tile& a, const Tile& b) {
        return a + sum(b, 1).expand_dims(1).broadcast_to({n, n}) +
               reduce_min(b, 1).expand_dims(1).broadcast_to({n, n});
      },
      [&](T a, T) {
        int64_t total = *std::min_element(numbers.begin(), numbers.end());
        for (const int64_t number : numbers) total += number;
        return T(a + total);
      });
}

TEST(Integers, NarrowTypesWrap) {
  check_narrow<int8_t>(i8);
  check_narrow<int16_t>(i16);
}

// A bitcast to float and back preserves the bits. Bits of a float are those of IEEE 754.
TEST(Integers, BitsOfFloats) {
  const Words numbers = {0,          0x3f800000,    0x7f800000,  1,
                         0x7fffff,   0x00800000,    0x40490fdb,  12345678,
                         INT32_MIN,  INT32_MIN + 1, -8388608,    0x7f7fffff,
                         0x3eaaaaab, 0x4b000000,    -1082130432, 2};
  check<uint32_t>(
      "there and back", i32, numbers, numbers, i32,
      [](const Tile& a, const Tile&) { return bitcast(bitcast(a, f32), i32); },
      [](uint32_t a, uint32_t) { return a; });
  check<uint32_t>(
      "twice", i32, numbers, numbers, i32,
      [](const Tile& a, const Tile&) { return bitcast(bitcast(a, f32) * 2.0f, i32); },
      [](uint32_t a, uint32_t) { return std::bit_cast<uint32_t>(std::bit_cast<float>(a) * 2); });
  // 1.5 is 0x3fc0 as bf16, which is 1.9375 as f16.
  check<uint32_t>(
      "16 bits", i32, numbers, numbers, i32,
      [](const Tile& a, const Tile&) {
        const Tile one_and_half = (a.to(f32) * 0.0f + 1.5f).to(bf16);
        return (bitcast(one_and_half, f16).to(f32) * 16.0f).to(i32);
      },
      [](uint32_t, uint32_t) { return 31u; });
}

// A conversion through f32 would round numbers near a tie twice.
TEST(Integers, RoundOnceToBf16) {
  const auto to_bf16 = [](const Tile& a, const Tile&) { return a.to(bf16).to(f32).to(i64); };
  const auto check_all = [&](DType type, const Words& numbers) {
    const Words found = evaluate(type, numbers, numbers, i64, to_bf16);
    for (size_t i = 0; i < numbers.size(); ++i)
      EXPECT_EQ(found[i * numbers.size()], rounded_to_bits(numbers[i], 8))
          << name(type) << " " << numbers[i];
  };
  std::mt19937_64 random(5);
  for (const int bits : {26, 30}) {
    Words numbers;
    for (int64_t unit = int64_t{1} << bits; numbers.size() < 16; unit = -unit) {
      const int64_t tie = unit + unit / 128 * static_cast<int64_t>(random() % 128) + unit / 256;
      for (const int64_t difference : {-1, 0, 1, 3}) numbers.push_back(tie + difference);
    }
    check_all(i32, numbers);
    Words far;
    for (const int64_t number : numbers) far.push_back((number << 31) + (number & 3) - 1);
    check_all(i64, far);
    check_all(i64, numbers);
  }
  check_all(i32, kNumbers);
  check_all(i64, kLongNumbers);
}

TEST(Integers, AnyAndAllAlongAnAxis) {
  const Words numbers = kNumbers;
  const auto n = static_cast<int64_t>(numbers.size());
  const auto check_rows = [&](const char* what, const Function& f, auto expected) {
    const Words found = evaluate(i32, numbers, numbers, i32, f);
    for (int64_t i = 0; i < n * n; ++i)
      EXPECT_EQ(found[i], expected(numbers[i / n])) << what << " of " << numbers[i / n];
  };
  const auto spread = [n](const Tile& row) {
    return row.to(i32).expand_dims(1).broadcast_to({n, n});
  };
  check_rows(
      "any", [&](const Tile& a, const Tile& b) { return spread(any(a + 1000 == b, 1)); },
      [&](int64_t a) {
        return std::count(numbers.begin(), numbers.end(),
                          static_cast<int32_t>(static_cast<uint32_t>(a) + 1000u)) > 0;
      });
  check_rows(
      "all", [&](const Tile& a, const Tile& b) { return spread(all(a <= b || b < -1000, 1)); },
      [&](int64_t a) {
        return std::all_of(numbers.begin(), numbers.end(),
                           [&](int64_t b) { return a <= b || b < -1000; });
      });
  check_rows(
      "any of a tile",
      [&](const Tile& a, const Tile& b) {
        return (a & 0) + any(a == b).to(i32) * 2 + all(a == b).to(i32);
      },
      [](int64_t) { return 2; });
}

// Tiles at the edges of a view, with and without an alignment offset. The result is 1 where a load
// reads the view.
TEST(Integers, InsideMatchesLoads) {
  for (const bool alignment_offset : {false, true}) {
    KernelBuilder k("inside");
    {
      View x = k.view("x", i32, {dyn, dyn}), y = k.view("y", i32, {dyn, 16}),
           z = k.view("z", i32, {dyn, 16});
      Scalar i = k.program_id(0);
      const Scalar row = i / 3 - 1, column = i % 3 - 1;
      const Scalar shift = alignment_offset ? x.alignment_offset({0}) : Scalar();
      const Partition tiles = x.partition({2, 4}), rows = x.partition({squeeze, 8});
      const Tile all_inside = tiles.inside({row, column});
      y.partition({squeeze, 8}).store({i, 0}, all_inside.to(i32).reshape({8}));
      y.partition({squeeze, 8}).store({i, 1}, tiles.load({row, column}).reshape({8}));
      z.partition({squeeze, 8}).store({i, 0}, rows.inside({row, column}, shift).to(i32));
      z.partition({squeeze, 8})
          .store({i, 1}, rows.load({row, column}, {.alignment_offset = shift}));
    }
    const Step step{.program = k.finish(), .launch = kernels::library_launch(12, 1)};
    Tensor x = Tensor(i32, {3, 7}, {}, 3).fill(Words(21, 1)), y(i32, {12, 16}), z(i32, {12, 16});
    backend().run({.steps = {step}}, 12, Arguments().tensor("x", x).tensor("y", y).tensor("z", z));
    int64_t seen = 0;
    for (int64_t program = 0; program < 12; ++program) {
      for (int64_t j = 0; j < 8; ++j) {
        for (const Tensor* t : {&y, &z})
          EXPECT_EQ(t->get_integer(program * 16 + j), t->get_integer(program * 16 + 8 + j))
              << program << ": " << j;
        seen += y.get_integer(program * 16 + j) + z.get_integer(program * 16 + j);
      }
    }
    EXPECT_EQ(seen, 42);
  }
}

}  // namespace
}  // namespace ligerdsl::test::integer_test
