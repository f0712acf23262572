// Elementary functions as arithmetic: what a GPU without libdevice and a CPU without a vector math library can run.
#pragma once

#include <cstdint>

#include "mlir/IR/Operation.h"

namespace ligerdsl::compiler {

enum class MathFlavor : uint8_t {
  generic,  // arith and math.{fma, absf, copysign, sqrt} only
  avx512,   // generic, with AVX-512's instructions to split off an exponent and to put it back (F, DQ and VL)
  nvptx,    // may use ex2.approx, lg2.approx, rsqrt.approx, tanh.approx (the last with afn only)
};

/// Replaces the math ops that have an expansion (isExpanded) on f32 scalars and vectors under `root`, within 2 ulp over
/// the whole range (tanh, erf: 1e-6 + 1e-5 relative; exp2: 2.5 ulp). With fastmath<afn> nvptx uses the
/// approximate instructions alone, and the other exponentials are good to 3 ulp (exp: of its argument's rounding to
/// base 2) between 2^-126 and 2^127, 0 or infinite outside. Results of generic and avx512 that are normal numbers are
/// the same bits (up to 2^127). Fails after a diagnostic where the operand is not f32. Other math ops are left alone.
/// arith.fptosi saturates, and gives 0 for NaN.
/// nvptx: tanh, sin and cos of a vector branch (scf.if), and arith.divf<afn> by 1 and an exponential, a magnitude or
/// another sum that its form shows to be 1 or more becomes a product with rcp.approx.ftz, which is 0 for divisors above
/// 2^126.
mlir::LogicalResult expandMath(mlir::Operation* root, MathFlavor flavor);

}  // namespace ligerdsl::compiler
