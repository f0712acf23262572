// Elementary functions as arithmetic, for targets without a math library.
#pragma once

#include <cstdint>

#include "mlir/IR/Operation.h"

namespace ligerdsl::compiler {

enum class MathFlavor : uint8_t {
  generic,  // arith and math.{fma, absf, copysign, sqrt} only
  avx512,   // generic, plus AVX-512 instructions that split off and apply exponents (F, DQ, VL)
  nvptx,    // uses ex2.approx, lg2.approx, rcp.approx, rsqrt.approx, and with afn tanh.approx
};

/// Replaces the math ops on f32 scalars and vectors under `root` that have an expansion
/// (isExpanded). Leaves other math ops alone. Fails after a diagnostic if an operand is not f32.
///
/// Errors are at most 2 ulp over the whole range. Exceptions:
///  - tanh and erf: 1e-6 absolute plus 1e-5 relative
///  - exp2: 2.5 ulp
///  - nvptx with fastmath<afn>: the errors of the approximate instructions
///  - other flavors with fastmath<afn>: exponentials have 3 ulp between 2^-126 and 2^127, and are 0
///    or infinite outside; exp also has the rounding error of x log2(e)
///
/// generic and avx512 give the same bits for normal results up to 2^127. arith.fptosi saturates,
/// and gives 0 for NaN.
///
/// On nvptx, tanh, sin and cos of vectors contain a branch (scf.if). Also, arith.divf<afn> becomes
/// a multiplication by rcp.approx.ftz if its divisor is 1 plus a value that cannot be negative,
/// such as an exponential. The quotient is 0 for divisors above 2^126.
mlir::LogicalResult expandMath(mlir::Operation* root, MathFlavor flavor);

}  // namespace ligerdsl::compiler
