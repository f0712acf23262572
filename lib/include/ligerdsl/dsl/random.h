// Random numbers as a function of a key and a counter. No state is stored, and every target and
// launch gives the same bits. With the same counters, a backward pass gets the same numbers as its
// forward pass.
//
// The generator is Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011, section 4. It maps a counter of four words and a key of two words to four
// words of 32 random bits.
#ifndef LIGERDSL_DSL_RANDOM_H_
#define LIGERDSL_DSL_RANDOM_H_

#include <array>

#include "ligerdsl/dsl/operands.h"

namespace ligerdsl {

// Returns four tiles of i32, with 32 random bits per element. `counter` has i32 tiles of one shape,
// `key` i32 scalars.
std::array<Tile, 4> philox(const std::array<Tile, 4>& counter, const std::array<Scalar, 2>& key,
                           Loc loc = Here::current());

// Returns philox(counter, key) for element `position` (i32 or i64, not negative) of a seed's
// stream. The counter is (low word of position, high word, 0, 0), and the key is the two words of
// the seed (i64). Uses that share a seed need disjoint positions.
std::array<Tile, 4> philox(const Scalar& seed, const Tile& position, Loc loc = Here::current());

// Returns f32 numbers in [0, 1), multiples of 2^-24, from random bits (i32). If p is a multiple of
// 2^-24, a result is less than p with probability p.
Tile uniform(const Tile& bits, Loc loc = Here::current());
// Returns uniform() of the first word of philox(seed, position).
Tile uniform(const Scalar& seed, const Tile& position, Loc loc = Here::current());

// Returns normally distributed f32 numbers with mean 0, variance 1 and a magnitude of at most 5.77,
// from two words of random bits (i32). Algorithm: Box, Muller, "A note on the generation of random
// normal deviates", 1958. Targets differ in the last bits, because their `log` and `sin` do.
Tile normal(const Tile& bits, const Tile& more_bits, Loc loc = Here::current());
// Returns normal() of the first two words of philox(seed, position).
Tile normal(const Scalar& seed, const Tile& position, Loc loc = Here::current());

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_RANDOM_H_
