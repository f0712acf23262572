// SHA-256 (FIPS 180-4), for cache keys and digests of cache entries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ligerdsl::runtime {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256& update(std::string_view bytes);
  // Adds the length, then the bytes, so that the fields "ab", "c" and "a", "bc" differ.
  Sha256& field(std::string_view bytes);
  Digest finish();  // call it once, as the last function

 private:
  void block(const uint8_t* bytes, size_t count);

  uint32_t state_[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                        0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
  uint8_t tail_[64];
  size_t tail_size_ = 0;
  uint64_t total_ = 0;
};

Digest sha256(std::string_view bytes);
std::string hex(const Digest& digest);

}  // namespace ligerdsl::runtime
