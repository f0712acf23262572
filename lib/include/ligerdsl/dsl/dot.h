// Matrix products of tiles.
//
//   auto [acc] = k.for_range(0, cdiv(depth, 32), 1, carry(k.zeros({64, 64}, f32)), [&](Scalar i, Tile acc) {
//     return carry(dot(a.load({row, i}), b.load({i, column}), acc));
//   });
//
// On a GPU of 16-bit operands by tensor cores (mma.sync), 16 x 8 x 16 at a time, where m and k have a factor of 16 and n
// one of 8; else each thread multiplies what it has of a row and a column, and a remark says so. On a CPU by vectors of
// f32.
#ifndef LIGERDSL_DSL_DOT_H_
#define LIGERDSL_DSL_DOT_H_

#include "ligerdsl/dsl/values.h"

namespace ligerdsl {

// a [m, k] by b [k, n], both f16, bf16 or f32, added to sums [m, n] of f32. Products of 16-bit numbers are exact, and
// added up in f32 in an order that is fixed for a target and a launch.
Tile dot(const Tile& a, const Tile& b, const Tile& sums, Loc loc = Here::current());

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_DOT_H_
