// Rows in shared memory whose 16-byte units are exchanged, so that neither the units of a row nor equal units of eight
// rows meet in one bank. PTX ISA, "Swizzling Modes" of tensor copies and of wgmma's operands.
#pragma once

#include <cstdint>

namespace ligerdsl::compiler {

/// Rows are cut into panels of `bytes` columns, which lie behind each other. Inside, a unit's number is combined by
/// exclusive or with that of its line of 128 bytes.
class Swizzle {
 public:
  static constexpr int64_t kUnit = 16, kPeriod = 8;  // bytes; rows after which panels repeat

  Swizzle(int64_t rows, int64_t bytes) : rows(rows), bytes(bytes) {}

  /// The widest panels, of 128, 64 or 32 bytes, that rows of so many bytes are cut into; 0 where there are none.
  static int64_t widest(int64_t rows, int64_t row_bytes);

  /// Where a byte would lie without the exchange.
  int64_t plain(int64_t row, int64_t byte) const { return byte / bytes * rows * bytes + row * bytes + byte % bytes; }
  /// The bits of an address that the exchange flips. Linear over F2 in it.
  int64_t flips(int64_t plain) const { return (plain >> 7 & (bytes / kUnit - 1)) * kUnit; }
  int64_t offset(int64_t row, int64_t byte) const { return plain(row, byte) ^ flips(plain(row, byte)); }
  /// All the bits that may be flipped.
  int64_t unitBits() const { return bytes - kUnit; }

  const int64_t rows, bytes;
};

}  // namespace ligerdsl::compiler
