// Elementary functions as arithmetic, for targets without a math library.
#pragma once

#include <cstdint>

#include "mlir/IR/Operation.h"

namespace ligerdsl::compiler {

enum class MathFlavor : uint8_t {
  generic,  // arith and math.{fma, absf, copysign, sqrt} only
  avx512,   // generic, plus AVX-512 instructions that split off and apply exponents (F, DQ, VL)
  nvptx,    // may use ex2.approx, lg2.approx, rsqrt.approx, and, with afn only, tanh.approx
};

/// Replaces the math ops on f32 scalars and vectors under `root` that have an expansion
/// (isExpanded). Leaves other math ops alone. Fails after a diagnostic if an operand is not f32.
///
/// Errors are at most 2 ulp over the whole range. Exceptions:
///  - tanh and erf: 1e-6 + 1e-5 relative
///  - exp2: 2.5 ulp
///  - nvptx with fastmath<afn>: the errors of the approximate instructions
///  - other flavors with fastmath<afn>: exponentials have 3 ulp between 2^-126 and 2^127, and are
///    0 or infinite outside; exp also has the rounding error of its argument to base 2
///
/// generic and avx512 give the same bits for normal results up to 2^127. arith.fptosi saturates,
/// and gives 0 for NaN.
///
/// On nvptx, tanh, sin and cos of vectors contain a branch (scf.if). arith.divf<afn> by 1 plus an
/// exponential, a magnitude or the like becomes a multiplication by rcp.approx.ftz. That gives 0
/// for divisors above 2^126.
mlir::LogicalResult expandMath(mlir::Operation* root, MathFlavor flavor);

}  // namespace ligerdsl::compiler
