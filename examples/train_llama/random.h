// Counter-based random numbers: every draw is a function of (seed, index), so that a resumed run
// continues the sequence.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace train {

// Applies SplitMix64's output function to a counter.
inline uint64_t random_bits(uint64_t seed, uint64_t index) {
  uint64_t z = seed * 0xd1342543de82ef95u + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Returns a number in [0, 1).
inline double random_uniform(uint64_t seed, uint64_t index) {
  return (random_bits(seed, index) >> 11) * 0x1p-53;
}

// Returns a standard normal number (Box-Muller).
inline double random_normal(uint64_t seed, uint64_t index) {
  double u = 1 - random_uniform(seed, 2 * index), v = random_uniform(seed, 2 * index + 1);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

}  // namespace train
