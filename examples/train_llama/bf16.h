// bfloat16 on the host: the upper half of an f32.
#pragma once

#include <bit>
#include <cstdint>

namespace train {

// Rounds to nearest, ties to even.
inline uint16_t to_bf16(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
inline float from_bf16(uint16_t x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x) << 16);
}

}  // namespace train
