// Compares Philox with the test vectors of its authors (Random123, kat_vectors). Also tests numbers
// made from its bits.
#include <algorithm>
#include <cmath>

#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::random_numbers_test {
namespace {

using kernels::Step;

int32_t word(int64_t bits) {
  return static_cast<int32_t>(static_cast<uint32_t>(bits));
}

// Returns the n elements of the tile that `body` computes in one program.
Values tile_of(int64_t n, DType type, const std::function<Tile(KernelBuilder&)>& body) {
  KernelBuilder k("random");
  {
    View y = k.view("y", type, {dyn});
    y.partition({n}).store({0}, body(k));
  }
  const Step step{.program = k.finish(), .launch = kernels::library_launch(1, 4)};
  Tensor y(type, {n});
  expect_aligned([&] { backend().run({.steps = {step}}, n, Arguments().tensor("y", y)); });
  return y.values();
}

struct Known {
  std::array<int64_t, 4> counter;
  std::array<int64_t, 2> key;
  std::array<int64_t, 4> words;
};

constexpr Known kKnown[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

TEST(Random, PhiloxGivesThePublishedWords) {
  for (const Known& known : kKnown) {
    for (int i = 0; i < 4; ++i) {
      const Values found = tile_of(4, i32, [&](KernelBuilder& k) {
        std::array<Tile, 4> counter;
        for (int j = 0; j < 4; ++j) counter[j] = k.full({4}, word(known.counter[j]), i32);
        return philox(
            counter, {k.constant(word(known.key[0]), i32), k.constant(word(known.key[1]), i32)})[i];
      });
      EXPECT_EQ(found[0], word(known.words[i])) << "word " << i;
    }
  }
}

TEST(Random, SeedAndPositionFillKeyAndCounter) {
  const int64_t seed = 0x299f31d0a4093822, position = 0x05a308d3243f6a88;
  const Values found = tile_of(4, i32, [&](KernelBuilder& k) {
    return philox(k.constant(seed, i64), k.full({4}, position, i64))[1];
  });
  const Values expected = tile_of(4, i32, [&](KernelBuilder& k) {
    const auto tile = [&](int64_t bits) { return k.full({4}, word(bits), i32); };
    return philox({tile(0x243f6a88), tile(0x05a308d3), tile(0), tile(0)},
                  {k.constant(word(0xa4093822), i32), k.constant(0x299f31d0, i32)})[1];
  });
  EXPECT_EQ(found, expected);
}

// The sample has a mean of 1/2 and a variance of 1/12, within five standard deviations. No two
// adjacent numbers are equal.
TEST(Random, UniformNumbersFillTheUnitInterval) {
  constexpr int64_t kCount = 8192;
  const Values x = tile_of(
      kCount, f32, [&](KernelBuilder& k) { return uniform(k.constant(7, i64), k.arange(kCount)); });
  double mean = 0, square = 0;
  for (double v : x) {
    EXPECT_GE(v, 0.0);
    EXPECT_LT(v, 1.0);
    mean += v / kCount;
    square += (v - 0.5) * (v - 0.5) / kCount;
  }
  EXPECT_NEAR(mean, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(square, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / kCount));
  EXPECT_EQ(std::adjacent_find(x.begin(), x.end()), x.end());
}

// Compares with the float64 formula, applied to the same random words. f32 is least accurate for
// angles near a multiple of pi.
TEST(Random, NormalNumbersFollowBoxMuller) {
  constexpr int64_t kCount = 8192;
  std::array<Values, 2> words;
  for (int i : {0, 1})
    words[i] = tile_of(kCount, i32, [&](KernelBuilder& k) {
      return philox(k.constant(7, i64), k.arange(kCount))[i];
    });
  const Values x = tile_of(
      kCount, f32, [&](KernelBuilder& k) { return normal(k.constant(7, i64), k.arange(kCount)); });
  const auto unit = [](double bits) {
    return (static_cast<uint32_t>(static_cast<int64_t>(bits)) >> 8) * 0x1p-24;
  };
  double mean = 0, square = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const double radius = std::sqrt(-2 * std::log(1 - unit(words[0][i])));
    ASSERT_NEAR(x[i], radius * std::sin(2 * M_PI * unit(words[1][i])), 2e-6) << i;
    mean += x[i] / kCount;
    square += x[i] * x[i] / kCount;
  }
  EXPECT_NEAR(mean, 0, 5 * std::sqrt(1.0 / kCount));
  EXPECT_NEAR(square, 1, 5 * std::sqrt(2.0 / kCount));
}

// The random bits are all 0 or all 1. The logarithm of the smallest possible number is finite.
TEST(Random, NormalNumbersAreFinite) {
  for (int64_t bits : {0, -1}) {
    const Values x = tile_of(4, f32, [&](KernelBuilder& k) {
      return normal(k.full({4}, bits, i32), k.full({4}, 1 << 30, i32));  // an angle of 90 degrees
    });
    EXPECT_NEAR(x[0], bits == 0 ? 0 : std::sqrt(48 * std::log(2)), 1e-5);
  }
}

}  // namespace
}  // namespace ligerdsl::test::random_numbers_test
