// Descriptors of wgmma operands in shared memory. PTX ISA, "Matrix Descriptor" and "Strides" of
// wgmma.mma_async.
#pragma once

#include "compiler/layout/swizzle.h"

namespace ligerdsl::compiler {

/// Operand in a slot with swizzled rows. It is contiguous along k or, if `transposed`, along m or
/// n.
struct WgmmaOperand {
  Swizzle swizzle;
  bool transposed;
  int64_t bytes = 2;  // bytes per element

  /// Returns the descriptor with address 0. The caller puts the address, in units of 16 bytes, in
  /// the lowest 14 bits.
  uint64_t descriptor() const;
  /// Returns the byte offset, before swizzling, at which one wgmma begins to read: that of element
  /// (`row`, `k`). The wgmma reads 64 rows along m, or all of n. Along m, `row` must be a multiple
  /// of 64; `k` elements must be a multiple of 32 bytes.
  int64_t offset(int64_t row, int64_t k) const;
};

}  // namespace ligerdsl::compiler
