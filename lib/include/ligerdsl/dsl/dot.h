// Matrix products of tiles.
//
//   auto [acc] = k.for_range(0, cdiv(depth, 32), 1, carry(k.zeros({64, 64}, f32)), [&](Scalar i, Tile acc) {
//     return carry(dot(a.load({row, i}), b.load({i, column}), acc));
//   });
//
// On a GPU of operands of 16 bits, fp8, i8 and tf32 by tensor cores (wgmma, mma.sync) where m has a factor of 16, n one of 8
// and k one of 32 bytes; else each thread multiplies what it has of a row and a column, and a remark says so. On a CPU by
// vectors of f32, of i8 by vectors of i32. docs/dsl.md: which operands take the fastest way.
#ifndef LIGERDSL_DSL_DOT_H_
#define LIGERDSL_DSL_DOT_H_

#include "ligerdsl/dsl/values.h"

namespace ligerdsl {

// What of operands of f32 is multiplied: all 24 bits of significand, or 11 of them, as tensor cores take them.
enum class InputPrecision : uint8_t { ieee, tf32 };

struct DotOptions {
  InputPrecision input_precision = InputPrecision::ieee;  // tf32: of f32 only
};

// a [m, k] by b [k, n], added to sums [m, n]. Both are f16, bf16, f32 or fp8 (either format), with sums of f32; or i8, with sums
// of i32, which are exact and wrap. Products of 16 and 8 bits are exact, added up in f32 (of fp8 by wgmma in some 14 bits) in an
// order that is fixed for a target and a launch. With InputPrecision::tf32 each f32 becomes the nearest number of 11 bits
// first, ties away from zero (what tensor copies bring: as they break them), so that it differs by 2^-11 of itself at most.
Tile dot(const Tile& a, const Tile& b, const Tile& sums, const DotOptions& options = {}, Loc loc = Here::current());

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_DOT_H_
