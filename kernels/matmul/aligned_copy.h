// Copies matmul operands to the workspace: rows begin at multiples of 128 bytes (16 if short).
//
// TMA and cp.async need rows that begin at multiples of 16 bytes. A matmul of unaligned rows loads
// single elements, which takes several times as long. Its schedule or copy_choice.h chooses copies.
#pragma once

#include <cstdint>

#include "kernels/core/launch.h"

namespace ligerdsl::kernels {

enum class Operand { a, b };

// Returns the argument name of an operand: "a" or "b", or "aligned_a" or "aligned_b" if copied.
const char* name_of(Operand operand, bool copied);

// Adds a step that copies an operand [rows, cols], and the workspace of the copy. Arguments: a and
// aligned_a, or b and aligned_b, which do not overlap.
void add_aligned_copy(Operation& operation, const Machine& machine, Operand operand, DType type,
                      const Size& rows, int64_t cols);

// Rates on an H200. Matmuls are bf16 and limited by tensor cores.
struct CopyRates {
  static constexpr double kUnalignedFlops = 80e12, kAlignedFlops = 650e12;  // matmuls: flop/s
  static constexpr double kCopyBytes = 2.5e12;                              // copies: bytes/s
  static constexpr double kLaunch = 2.5e-6;                                 // seconds
  static constexpr double kSecondsPerByte = 2 / kCopyBytes;                 // reads and writes
};

// Effect of copying unaligned operands: seconds saved per row of `a` in memory, and a fixed cost in
// seconds.
struct CopyGain {
  double gained_per_row, lost;
  bool pays(double rows) const { return gained_per_row * rows > lost; }
};

struct CopiedBytes {
  double per_row, fixed;  // bytes copied: per row of `a` in memory, and for any number of rows
  int copies;             // number of copied operands
};

// `flop_per_row`: the matmul's floating-point operations per row of `a` in memory.
CopyGain gain_of_copies(double flop_per_row, const CopiedBytes& bytes);

}  // namespace ligerdsl::kernels
