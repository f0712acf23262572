// Compares fp8 conversions of every code, and of floats of all magnitudes, with a search among the
// codes (tests/support/fp8.h). Also tests copies of codes, and quantisation of rows as in a
// training step.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::fp8_test {
namespace {

using kernels::Step;

const Fp8& format_of(DType type) {
  return type == f8e4m3 ? kE4m3 : kE5m2;
}

// Expects the nearest code to `number`. For a NaN, any NaN code is accepted.
void expect_code(DType type, uint8_t code, double number) {
  if (std::isnan(number)) {
    EXPECT_TRUE(std::isnan(from_fp8(format_of(type), code))) << "code " << int{code} << " of NaN";
  } else {
    EXPECT_EQ(int{code}, int{to_fp8(format_of(type), number)}) << "of " << number;
  }
}

void expect_number(double found, double expected, int64_t place) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << place;
  } else {
    EXPECT_TRUE(found == expected && std::signbit(found) == std::signbit(expected))
        << found << " instead of " << expected << " at " << place;
  }
}

// Block sizes. With four warps, a thread has an odd number of elements, pairs, or contiguous
// registers.
struct Block {
  int64_t size, alignment;  // size of the tile, and alignment of addresses, in elements
};
const std::vector<Block> kBlocks = {{32, 1}, {128, 1}, {384, 1}, {512, 4}, {4096, 16}};

// Returns f applied to each block of x.
template <class Function>
Tensor map_blocks(const Tensor& x, DType to, int64_t block, const Function& f) {
  KernelBuilder k("map_blocks");
  {
    View y = k.view("y", to, {dyn}), in = k.view("x", x.type(), {dyn});
    Scalar i = k.program_id(0);
    y.partition({block}).store({i}, f(k, in.partition({block}).load({i})));
  }
  const Step step{.program = k.finish(),
                  .launch = kernels::library_launch(ceil_div(x.size(), block), 4)};
  Tensor in = x, y(to, {x.size()});
  backend().run({.steps = {step}}, x.size(), Arguments().tensor("y", y).tensor("x", in));
  return y;
}

Tensor cast(const Tensor& x, DType to, int64_t block) {
  return map_blocks(x, to, block, [&](KernelBuilder&, const Tile& tile) { return tile.to(to); });
}

// Returns all 256 codes three times and five more, so that the last block is partial.
Tensor every_code(DType type) {
  Tensor codes(type, {3 * 256 + 5});
  for (int64_t i = 0; i < codes.size(); ++i) codes.data()[i] = static_cast<uint8_t>(i);
  return codes;
}

class Fp8Types : public ::testing::TestWithParam<DType> {};

TEST_P(Fp8Types, EveryCodeIsItsNumber) {
  const Tensor codes = every_code(GetParam());
  for (const DType to : {f32, f16, bf16}) {
    for (const Block& block : kBlocks) {
      SCOPED_TRACE(std::string(name(to)) + ", blocks of " + std::to_string(block.size));
      const Tensor y = cast(codes, to, block.size);
      for (int64_t i = 0; i < y.size(); ++i)
        expect_number(y.get(i), from_fp8(format_of(GetParam()), static_cast<uint8_t>(i)), i);
    }
  }
}

// Inputs are every bf16 number and the f32 numbers before and after it. They include ties,
// subnormal numbers, overflows, infinities and NaN.
TEST_P(Fp8Types, F32RoundsToNearestNumber) {
  Tensor x(f32, {3 * 65536});
  auto* words = reinterpret_cast<uint32_t*>(x.data());
  for (uint32_t i = 0; i < x.size(); ++i) words[i] = (i / 3 << 16) + i % 3 - 1;
  const Tensor y = cast(x, GetParam(), 4096);
  for (int64_t i = 0; i < x.size(); ++i) expect_code(GetParam(), y.data()[i], x.get(i));
}

TEST_P(Fp8Types, HalvesRoundToNearestNumber) {
  for (const DType from : {f16, bf16}) {
    SCOPED_TRACE(name(from));
    Tensor x(from, {65536});
    for (uint32_t i = 0; i < x.size(); ++i)
      reinterpret_cast<uint16_t*>(x.data())[i] = static_cast<uint16_t>(i);
    const Tensor y = cast(x, GetParam(), 4096);
    for (int64_t i = 0; i < x.size(); ++i) expect_code(GetParam(), y.data()[i], x.get(i));
  }
}

TEST_P(Fp8Types, ThreadsWithFewElementsConvertThem) {
  const double largest = largest_of(GetParam());
  const Values numbers = {
      0.0, -0.0, 1.0, -1.1, 0.3, 5e-3, -3e-5, 1e-9, largest, -1.04 * largest, 1e9, INFINITY, NAN};
  for (const DType from : {f32, f16}) {
    Tensor x(from, {1543});
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, numbers[i % std::ssize(numbers)]);
    for (const Block& block : kBlocks) {
      SCOPED_TRACE(std::string(name(from)) + ", blocks of " + std::to_string(block.size));
      const Tensor y = cast(x, GetParam(), block.size);
      for (int64_t i = 0; i < x.size(); ++i) expect_code(GetParam(), y.data()[i], x.get(i));
    }
  }
}

// Copies do not change codes, not even those of infinities.
TEST_P(Fp8Types, CodesMove) {
  const Tensor codes = every_code(GetParam());
  const auto moved = [](KernelBuilder& k, const Tile& x) {
    const Tile twice = flip(flip(x, 0), 0), pairs = twice.reshape({2, 256});
    const Tile chosen = where(k.arange(512) < 300, twice, pairs.reshape({512}));
    auto [a, b] = split(chosen.reshape({256, 2}));
    return interleave(a, b);
  };
  const Tensor y = map_blocks(codes, GetParam(), 512, moved);
  for (int64_t i = 0; i < y.size(); ++i) expect_number(y.get(i), codes.get(i), i);
}

TEST_P(Fp8Types, BitcastsToI8) {
  const Tensor codes = every_code(GetParam());
  const Tensor bits =
      map_blocks(codes, i8, 512, [](KernelBuilder&, const Tile& x) { return bitcast(x, i8); });
  const auto doubled = [&](KernelBuilder&, const Tile& x) { return bitcast((x + x), GetParam()); };
  const Tensor back = map_blocks(bits, GetParam(), 512, doubled);
  for (int64_t i = 0; i < codes.size(); ++i) {
    const auto code = static_cast<uint8_t>(i);
    if (!std::isnan(codes.get(i))) {
      EXPECT_EQ(bits.get_integer(i), static_cast<int8_t>(code));
    }
    expect_number(back.get(i),
                  from_fp8(format_of(GetParam()), static_cast<uint8_t>(2 * bits.get_integer(i))),
                  i);
  }
}

TEST_P(Fp8Types, PadsConstantsAndScalars) {
  const DType type = GetParam();
  KernelBuilder k("numbers");
  {
    View y = k.view("y", type, {8, 64}), x = k.view("x", type, {3});
    Scalar given = k.scalar("given", type), whole = k.scalar("whole", f32);
    auto store = [&, row = 0](const Tile& tile) mutable {
      y.partition({squeeze, 64}).store({row++, 0}, tile);
    };
    store(x.partition({64}).load({0}, {.pad = -0.3}));
    store(x.partition({64}).load({0}, {.pad = largest_of(type)}));
    store(k.full({64}, 0.3, type));
    store(k.full({64}, -0.0, type));
    store(k.full({64}, type == f8e5m2 ? INFINITY : NAN, type));
    store(given.broadcast_to({64}));
    store(whole.to(type).broadcast_to({64}));
    const Tile inside = k.arange(64) < 3;
    store(load(x.ptr() + k.arange(64), inside, 2.0));
  }
  const Step step{.program = k.finish(), .launch = kernels::library_launch(1, 4)};
  Tensor x = Tensor(type, {3}).fill(Values{1, 2, 3}), y(type, {8, 64});
  backend().run(
      {.steps = {step}}, 1,
      Arguments().tensor("y", y).tensor("x", x).number("given", -1.3).number("whole", 1e6));
  const double last = type == f8e5m2 ? INFINITY : NAN;
  const Values rest = {-0.3, largest_of(type), 0.3, -0.0, last, -1.3, largest_of(type), 2.0};
  for (int64_t row = 0; row < 8; ++row) {
    for (int64_t column = 0; column < 64; ++column) {
      const bool loaded = column < 3 && (row < 2 || row == 7);
      const double expected = loaded ? static_cast<double>(column + 1) : rest[row];
      const double rounded = std::isfinite(expected)
                                 ? from_fp8(format_of(type), to_fp8(format_of(type), expected))
                                 : expected;
      expect_number(y.get(64 * row + column), rounded, 64 * row + column);
    }
  }
}

// Returns the running maximum of each block: the last element by a reduction, the others by a scan.
template <class Combiner>
Tensor prefix_greatest(const Tensor& x, DType between, int64_t block, const Combiner& greatest) {
  return map_blocks(x, x.type(), block, [&](KernelBuilder& k, const Tile& tile) {
    auto [so_far] = scan({tile.to(between)}, 0, greatest, false);
    auto [most] = reduce({tile.to(between)}, greatest);
    return where(k.arange(block) == block - 1, most, so_far).to(x.type());
  });
}

TEST_P(Fp8Types, CombinersCast) {
  const DType type = GetParam();
  const auto of_codes = [](const Scalar& a, const Scalar& b) {
    return carry(where(a.to(f32) > b.to(f32), a, b));
  };
  const auto rounded = [&](const Scalar& a, const Scalar& b) {
    return carry(max(a, b).to(type).to(a.dtype()));
  };
  const auto through_half = [&](const Scalar& a, const Scalar& b) {
    return carry(max(a.to(f16), b.to(f16)).to(type));
  };
  for (const Block& block : kBlocks) {
    SCOPED_TRACE(block.size);
    Tensor codes(type, {2 * block.size}), numbers(f32, {2 * block.size});
    for (int64_t i = 0; i < codes.size(); ++i) {
      codes.set(i, (i % 37 - 20) * 0.25 + (i == block.size / 2 ? 300 : 0));
      numbers.set(i, codes.get(i) * 1.01);  // rounds to the number of the code
    }
    const Tensor found[] = {prefix_greatest(codes, type, block.size, of_codes),
                            prefix_greatest(codes, type, block.size, through_half),
                            prefix_greatest(numbers, f32, block.size, rounded)};
    double most = 0;
    for (int64_t i = 0; i < codes.size(); ++i) {
      const bool first = i % block.size == 0;
      most = first ? codes.get(i) : std::max(most, codes.get(i));
      EXPECT_EQ(found[0].get(i), most) << i;
      EXPECT_EQ(found[1].get(i), most) << i;
      EXPECT_EQ(found[2].get(i), first ? numbers.get(i) : most)
          << i;  // the first element is not combined
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Fp8Types, ::testing::Values(f8e4m3, f8e5m2),
                         [](const auto& info) { return std::string(name(info.param)); });

constexpr int64_t kRowBlock = 1024;

// Scales each row so that its largest magnitude becomes the largest fp8 number: scale = amax / 448,
// codes = x / scale.
Step quantise_rows(int64_t rows) {
  KernelBuilder k("quantise_rows");
  {
    View codes = k.view("codes", f8e4m3, {dyn, dyn}), scales = k.view("scales", f32, {dyn});
    View x = k.view("x", bf16, {dyn, dyn});
    Scalar row = k.program_id(0);
    Resident blocks = x.partition({squeeze, kRowBlock}).resident({row});
    Scalar n = blocks.blocks();
    auto [amax] = k.for_range(0, n, 1, carry(k.constant(1e-12f, f32)), [&](Scalar b, Scalar most) {
      return carry(max(most, reduce_max(abs(blocks.load(b).to(f32)))));
    });
    Scalar scale = amax / 448.0f;
    scales.store({row}, scale);
    k.for_range(0, n, 1, [&](Scalar i) {
      Scalar b = n - 1 - i;
      codes.partition({squeeze, kRowBlock})
          .store({row, b}, (blocks.load(b).to(f32) / scale).to(f8e4m3));
    });
  }
  return {.program = k.finish(), .launch = kernels::library_launch(rows, 4)};
}

Step dequantise_rows(int64_t rows) {
  KernelBuilder k("dequantise_rows");
  {
    View y = k.view("y", f32, {dyn, dyn}), codes = k.view("codes", f8e4m3, {dyn, dyn}),
         scales = k.view("scales", f32, {dyn});
    Scalar row = k.program_id(0), scale = scales.load({row});
    k.for_range(0, cdiv(y.dim(1).to(i32), kRowBlock), 1, [&](Scalar b) {
      const Tile numbers = codes.partition({squeeze, kRowBlock}).load({row, b}).to(f32);
      y.partition({squeeze, kRowBlock}).store({row, b}, numbers * scale);
    });
  }
  return {.program = k.finish(), .launch = kernels::library_launch(rows, 4)};
}

TEST(Fp8Rows, QuantiseAndDequantise) {
  for (const int64_t width : {16, 1000, 1024, 5003}) {
    constexpr int64_t kRows = 5;
    SCOPED_TRACE(width);
    Tensor x = random_rows(bf16, kRows, width, 7, gap_of(width)), codes(f8e4m3, {kRows, width});
    Tensor scales(f32, {kRows}), y(f32, {kRows, width});
    for (int64_t i = 0; i < width; ++i) x.set(2 * width + i, 0.0);  // a row of zeros
    for (int64_t i = 0; i < width; ++i) x.set(3 * width + i, x.get(3 * width + i) * 1e30);
    backend().run({.steps = {quantise_rows(kRows)}}, kRows,
                  Arguments().tensor("codes", codes).tensor("scales", scales).tensor("x", x));
    backend().run({.steps = {dequantise_rows(kRows)}}, kRows,
                  Arguments().tensor("y", y).tensor("codes", codes).tensor("scales", scales));
    for (int64_t row = 0; row < kRows; ++row) {
      double amax = 1e-12;
      for (int64_t i = 0; i < width; ++i) amax = std::max(amax, std::fabs(x.get(row * width + i)));
      const double scale = amax / 448;
      EXPECT_NEAR(scales.get(row), scale, 1e-6 * scale);
      double most = 0;
      for (int64_t i = row * width; i < (row + 1) * width; ++i) {
        const double wanted = x.get(i) / scale, got = codes.get(i);
        // Half the spacing of f8e4m3 at `wanted`: 4 bits of significand, and a spacing of at least
        // 2^-9.
        const double half =
            std::max(std::ldexp(1.0, std::ilogb(std::max(std::fabs(wanted), 1e-9)) - 4), 0x1p-10);
        ASSERT_NEAR(got, wanted, half * (1 + 1e-5)) << x.get(i);
        ASSERT_NEAR(y.get(i), got * scale, 1e-6 * std::fabs(got * scale));
        most = std::max(most, std::fabs(got));
      }
      EXPECT_EQ(most, row == 2 ? 0 : 448);
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::fp8_test
