/* Portable random numbers: splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators", 2014). */
#ifndef GPT2_RANDOM_H_
#define GPT2_RANDOM_H_

#include <math.h>
#include <stdint.h>

static inline uint64_t random_bits(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Returns a number in (0, 1). */
static inline double random_uniform(uint64_t* state) {
  return ((double)(random_bits(state) >> 11) + 0.5) * 0x1p-53;
}

static inline double random_normal(uint64_t* state) {
  const double radius = sqrt(-2 * log(random_uniform(state)));
  return radius * cos(6.283185307179586 * random_uniform(state));
}

#endif
