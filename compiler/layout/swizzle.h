// Swizzled rows in shared memory. A permutation of 16-byte units prevents bank conflicts, both
// among the units of one row and among the same unit of eight rows. PTX ISA, "Swizzling Modes" of
// TMA copies and of wgmma operands.
#pragma once

#include <cstdint>

namespace ligerdsl::compiler {

/// Rows are split into panels `bytes` wide, which are stored one after the other. Inside a panel,
/// the number of a unit is combined by exclusive or with the lowest bits of its 128-byte line's
/// number.
class Swizzle {
 public:
  static constexpr int64_t kUnit = 16, kPeriod = 8;  // bytes; rows until the permutation repeats

  Swizzle(int64_t rows, int64_t bytes) : rows(rows), bytes(bytes) {}

  /// Returns the width of the widest panels (128, 64 or 32 bytes) for `rows` rows of `row_bytes`
  /// bytes. Returns 0 if no width divides the row, or `rows` is not a multiple of 8.
  static int64_t widest(int64_t rows, int64_t row_bytes);

  /// Returns the offset of a byte without the swizzle.
  int64_t plain(int64_t row, int64_t byte) const {
    return byte / bytes * rows * bytes + row * bytes + byte % bytes;
  }
  /// Returns the bits of an offset that the swizzle flips. Linear over F2.
  int64_t flips(int64_t plain) const { return (plain >> 7 & (bytes / kUnit - 1)) * kUnit; }
  int64_t offset(int64_t row, int64_t byte) const {
    return plain(row, byte) ^ flips(plain(row, byte));
  }
  /// Returns the offset bits that the swizzle may flip.
  int64_t unitBits() const { return bytes - kUnit; }

  const int64_t rows, bytes;
};

}  // namespace ligerdsl::compiler
