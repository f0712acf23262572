// How wgmma finds a factor in shared memory. PTX ISA, "Matrix Descriptor" and "Strides" of wgmma.mma_async.
#pragma once

#include "compiler/layout/swizzle.h"

namespace ligerdsl::compiler {

/// A part of a slot whose rows are swizzled: rows of m or n with k along them, or `transposed`.
struct WgmmaFactor {
  Swizzle swizzle;
  bool transposed;
  int64_t bytes = 2;  // of a number

  /// What stands in a descriptor beside the address, which is in units of 16 bytes in its lowest 14 bits.
  uint64_t descriptor() const;
  /// Where the 64 rows of m, or all of n, begin at which an instruction's stretch of k begins: bytes, before the exchange of
  /// units. A multiple of 64 along m, of 32 bytes along k.
  int64_t offset(int64_t row, int64_t k) const;
};

}  // namespace ligerdsl::compiler
