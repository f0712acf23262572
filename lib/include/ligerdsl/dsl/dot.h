// Matmul of tiles.
//
//   const auto step = [&](Scalar i, Tile acc) {
//     return carry(dot(a.load({row, i}), b.load({i, column}), acc));
//   };
//   auto [acc] = k.for_range(0, cdiv(depth, 32), 1, carry(k.zeros({64, 64}, f32)), step);
//
// A GPU multiplies 16-bit, fp8, i8 and tf32 operands with tensor cores (wgmma, mma.sync). These
// require m to be a multiple of 16, n of 8, and k of 16 (16-bit, fp8), 32 (i8) or 8 (tf32).
// Otherwise each thread multiplies its rows and columns, and a remark gives the reason. A CPU uses
// vectors of f32, or of i32 for i8 operands. docs/reference/dsl-matmul.md lists the operands that
// the fastest instructions accept.
#ifndef LIGERDSL_DSL_DOT_H_
#define LIGERDSL_DSL_DOT_H_

#include "ligerdsl/dsl/values.h"

namespace ligerdsl {

// Precision of f32 operands: `ieee` keeps 24 significand bits, `tf32` rounds to 11 for tensor
// cores.
enum class InputPrecision : uint8_t { ieee, tf32 };

struct DotOptions {
  InputPrecision input_precision = InputPrecision::ieee;  // tf32 requires f32 operands
};

// Returns `acc` + a b, for a [m, k], b [k, n] and the accumulator `acc` [m, n]. Operand types:
//   * f16, bf16, f32, or fp8 (a and b may have different formats): the accumulator is f32.
//   * i8: the accumulator is i32, exact, and wraps.
//
// Multiplications of 16-bit and fp8 operands are exact. Their results are accumulated in f32,
// except that wgmma keeps about 14 bits for fp8. The order of accumulation depends only on the
// target and the Launch.
//
// InputPrecision::tf32 rounds each f32 operand to the nearest number of 11 significand bits, with a
// relative error of at most 2^-11. Ties round away from zero, except in TMA copies, where the
// hardware decides.
Tile dot(const Tile& a, const Tile& b, const Tile& acc, const DotOptions& options = {},
         Loc loc = Here::current());

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_DOT_H_
