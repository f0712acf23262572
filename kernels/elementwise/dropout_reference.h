// float64 dropout. Philox4x32-10 is written from Salmon et al. (SC 2011), figure 3 and section 4.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/core/reference_values.h"

namespace ligerdsl::reference {

// Returns the four random words for this counter and key.
inline std::array<uint32_t, 4> philox_reference(std::array<uint32_t, 4> c,
                                                std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53} * c[0], b = uint64_t{0xcd9e8d57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9e3779b9;
    key[1] += 0xbb67ae85;
  }
  return c;
}

struct DropoutCase {
  double p = 0;
  int64_t seed = 0, offset = 0;

  // Returns true if element i is kept.
  bool keeps(uint64_t i) const {
    const uint64_t key = static_cast<uint64_t>(seed),
                   counter = static_cast<uint64_t>(offset) + i / 4;
    const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
    const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
    return philox_reference({low(counter), high(counter), 0, 0}, {low(key), high(key)})[i % 4] >=
           std::floor(p * 0x1p32);
  }
};

// Returns x / (1 - p) for kept elements, else 0. Adds it to `addend` unless that is empty.
inline Values dropout_reference(const Values& x, const Values& addend, const DropoutCase& c) {
  Values y(x.size());
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = (c.keeps(i) ? x[i] / (1 - c.p) : 0) + (addend.empty() ? 0 : addend[i]);
  return y;
}

}  // namespace ligerdsl::reference
