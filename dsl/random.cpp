#include "ligerdsl/dsl/random.h"

#include "ligerdsl/dsl/math.h"
#include "ligerdsl/dsl/operators.h"
#include "recorder.h"

namespace ligerdsl {
namespace {

constexpr int kRounds = 10;
constexpr int64_t kMultipliers[] = {0xd2511f53, 0xcd9e8d57};
constexpr int64_t kWeyl[] = {0x9e3779b9, 0xbb67ae85};  // added to the key between rounds

// Returns the low 32 bits as an i32.
int32_t word(int64_t bits) {
  return static_cast<int32_t>(static_cast<uint32_t>(bits));
}

template <class T>
T exclusive_or(const T& a, const T& b, Loc loc) {
  return At<T>(a, loc) ^ At<T>(b, loc);
}

struct Product {
  Tile high, low;
};

// Returns the high and the low 32 bits of an unsigned product. One wide multiplication
// (mul.wide.u32, vpmuludq) costs less than a separate multiplication for each half.
Product multiply(const Tile& x, int64_t factor, Loc loc) {
  const Tile wide = At<Tile>(x.to(i64, loc), loc) & ScalarArg(int64_t{0xffffffff}, loc);
  const Tile product = At<Tile>(wide, loc) * ScalarArg(factor, loc);
  const Tile high = At<Tile>(product, loc) >> ScalarArg(32, loc);
  return {high.to(i32, loc), product.to(i32, loc)};
}

// `wanted` is the dtype that the error suggests.
void require(bool holds, const char* what, DType got, DType wanted, Loc loc) {
  if (!holds)
    detail::fail(loc, "philox",
                 std::string("expected ") + what + ", got " + name(got) + "; convert with .to(" +
                     name(wanted) + ")");
}

}  // namespace

std::array<Tile, 4> philox(const std::array<Tile, 4>& counter, const std::array<Scalar, 2>& key,
                           Loc loc) {
  for (const Tile& tile : counter)
    require(tile.dtype() == i32, "a counter of i32 tiles", tile.dtype(), i32, loc);
  for (const Scalar& scalar : key)
    require(scalar.dtype() == i32, "a key of i32 scalars", scalar.dtype(), i32, loc);
  std::array<Tile, 4> c = counter;
  std::array<Scalar, 2> k = key;
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) {
      for (int i : {0, 1}) k[i] = At<Scalar>(k[i], loc) + NumberArg(word(kWeyl[i]), loc);
    }
    const Product first = multiply(c[0], kMultipliers[0], loc),
                  second = multiply(c[2], kMultipliers[1], loc);
    const auto mixed = [&](const Product& product, const Tile& other, const Scalar& own) -> Tile {
      const Tile both = exclusive_or(product.high, other, loc);
      return At<Tile>(both, loc) ^ ScalarArg(own, loc);
    };
    c = {mixed(second, c[1], k[0]), second.low, mixed(first, c[3], k[1]), first.low};
  }
  return c;
}

std::array<Tile, 4> philox(const Scalar& seed, const Tile& position, Loc loc) {
  require(seed.dtype() == i64, "an i64 seed", seed.dtype(), i64, loc);
  require(position.dtype() == i32 || position.dtype() == i64, "positions of i32 or i64",
          position.dtype(), i64, loc);
  const Tile low = position.to(i32, loc), zero = exclusive_or(low, low, loc);
  Tile high = zero;
  if (position.dtype() == i64)
    high = Tile(At<Tile>(position, loc) >> ScalarArg(32, loc)).to(i32, loc);
  const Scalar upper = At<Scalar>(seed, loc) >> NumberArg(32, loc);
  return philox({low, high, zero, zero}, {seed.to(i32, loc), upper.to(i32, loc)}, loc);
}

Tile uniform(const Tile& bits, Loc loc) {
  if (bits.dtype() != i32)
    detail::fail(
        loc, "uniform",
        std::string("expected i32 random bits, such as a tile that philox() returns, got ") +
            name(bits.dtype()));
  const Tile shifted = At<Tile>(bits, loc) >> ScalarArg(8, loc);
  const Tile high = At<Tile>(shifted, loc) & ScalarArg(0xffffff, loc);
  return At<Tile>(high.to(f32, loc), loc) * ScalarArg(0x1p-24, loc);
}

Tile uniform(const Scalar& seed, const Tile& position, Loc loc) {
  return uniform(philox(seed, position, loc)[0], loc);
}

Tile normal(const Tile& bits, const Tile& more_bits, Loc loc) {
  constexpr double kTwoPi = 6.283185307179586;
  const Tile positive = ScalarArg(1, loc) - At<Tile>(uniform(bits, loc), loc);  // (0, 1]
  const Tile square = ScalarArg(-2, loc) * At<Tile>(log(positive, loc), loc);
  const Tile angle = At<Tile>(uniform(more_bits, loc), loc) * ScalarArg(kTwoPi, loc);
  return At<Tile>(sqrt(square, loc), loc) * sin(angle, loc);
}

Tile normal(const Scalar& seed, const Tile& position, Loc loc) {
  const std::array<Tile, 4> words = philox(seed, position, loc);
  return normal(words[0], words[1], loc);
}

}  // namespace ligerdsl
