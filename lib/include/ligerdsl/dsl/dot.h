// Matrix products of tiles.
//
//   auto [acc] = k.for_range(0, cdiv(depth, 32), 1, carry(k.zeros({64, 64}, f32)), [&](Scalar i, Tile acc) {
//     return carry(dot(a.load({row, i}), b.load({i, column}), acc));
//   });
//
// On a GPU of operands of 16 bits and fp8 by tensor cores (wgmma, mma.sync) where m and k have a factor of 16 and n one of
// 8; else each thread multiplies what it has of a row and a column, and a remark says so. On a CPU by vectors of
// f32. docs/dsl.md: which operands take the fastest way.
#ifndef LIGERDSL_DSL_DOT_H_
#define LIGERDSL_DSL_DOT_H_

#include "ligerdsl/dsl/values.h"

namespace ligerdsl {

// a [m, k] by b [k, n], both f16, bf16, f32, or fp8 (either format), added to sums [m, n] of f32. Products of 16 and 8 bits are
// exact, added up in f32 (of fp8 by wgmma in some 14 bits) in an order that is fixed for a target and a launch.
Tile dot(const Tile& a, const Tile& b, const Tile& sums, Loc loc = Here::current());

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_DOT_H_
