// Random numbers as a function of a key and a counter: nothing is stored, every target and every launch gives the same
// bits, and a backward pass that asks again gets what the forward pass got.
//
// The generator is Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
// section 4. Four words of 32 random bits come from a counter of four words under a key of two.
#ifndef LIGERDSL_DSL_RANDOM_H_
#define LIGERDSL_DSL_RANDOM_H_

#include <array>

#include "ligerdsl/dsl/operands.h"

namespace ligerdsl {

// Four tiles of i32, each element 32 random bits. counter: i32 tiles of one shape; key: i32 scalars.
std::array<Tile, 4> philox(const std::array<Tile, 4>& counter, const std::array<Scalar, 2>& key,
                           Loc loc = Here::current());

// The same for element `position` (i32 or i64, not negative) of the stream of a seed (i64): the counter is (position's
// low word, its high word, 0, 0), the key the words of the seed. Give each use of a seed positions of its own.
std::array<Tile, 4> philox(const Scalar& seed, const Tile& position, Loc loc = Here::current());

// f32 in [0, 1), multiples of 2^-24, from random bits (i32): x < p holds with probability p for such p.
Tile uniform(const Tile& bits, Loc loc = Here::current());
// uniform of the first word of philox(seed, position).
Tile uniform(const Scalar& seed, const Tile& position, Loc loc = Here::current());

// f32 of mean 0 and variance 1, of magnitude at most 5.77, from two words of random bits (i32): Box, Muller, "A note on
// the generation of random normal deviates", 1958. Targets differ in the last bits, as `log` and `sin` do.
Tile normal(const Tile& bits, const Tile& more_bits, Loc loc = Here::current());
// normal of the first two words of philox(seed, position).
Tile normal(const Scalar& seed, const Tile& position, Loc loc = Here::current());

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_RANDOM_H_
