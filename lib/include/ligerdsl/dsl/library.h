// Functions on top of the ops: nothing here that an author could not write.
#ifndef LIGERDSL_DSL_LIBRARY_H_
#define LIGERDSL_DSL_LIBRARY_H_

#include "ligerdsl/dsl/builder.h"
#include "ligerdsl/dsl/math.h"
#include "ligerdsl/dsl/operators.h"
#include "ligerdsl/dsl/reduce.h"

namespace ligerdsl {

// ceil(a / b) for non-negative integers.
Scalar cdiv(const Scalar& a, ScalarArg b, Loc loc = Here::current());

// Which tile of a matrix a program of a one-dimensional grid makes, so that those that run at a time have rows and columns in
// common, which the second-level cache holds: `group` rows of tiles are done together, column by column. i32; of `tile_rows` by
// `tile_columns` tiles, fewer than 2^31.
struct TilePlace {
  Scalar row, column;
};
TilePlace grouped_tiles(const Scalar& program, const Scalar& tile_rows, const Scalar& tile_columns, int64_t group,
                        Loc loc = Here::current());

// Whether the bits of a are less than (at most, ...) those of b as unsigned numbers; i8, i16, i32, i64.
Tile ult(const Tile& a, TileArg b, Loc loc = Here::current());
Tile ule(const Tile& a, TileArg b, Loc loc = Here::current());
Tile ugt(const Tile& a, TileArg b, Loc loc = Here::current());
Tile uge(const Tile& a, TileArg b, Loc loc = Here::current());
Scalar ult(const Scalar& a, ScalarArg b, Loc loc = Here::current());
Scalar ule(const Scalar& a, ScalarArg b, Loc loc = Here::current());
Scalar ugt(const Scalar& a, ScalarArg b, Loc loc = Here::current());
Scalar uge(const Scalar& a, ScalarArg b, Loc loc = Here::current());

// The upper half of the product of unsigned numbers: one multiplication of i32, four of i64.
Tile umulhi(const Tile& a, TileArg b, Loc loc = Here::current());
Scalar umulhi(const Scalar& a, ScalarArg b, Loc loc = Here::current());

// Whether any (all) elements of an i1 tile are true.
Scalar any(const Tile& x, Loc loc = Here::current());
Tile any(const Tile& x, int axis, Loc loc = Here::current());
Scalar all(const Tile& x, Loc loc = Here::current());
Tile all(const Tile& x, int axis, Loc loc = Here::current());

// Sum divided by the number of elements of the tile (padding included), rounded once.
Scalar mean(const Tile& x, Loc loc = Here::current());
Tile mean(const Tile& x, int axis, Loc loc = Here::current());

// sum(a * b) over all elements, or along an axis. Products and additions may be one fma each, also where rounding is
// otherwise exact.
Scalar sum_products(const Tile& a, const Tile& b, Loc loc = Here::current());
Tile sum_products(const Tile& a, const Tile& b, int axis, Loc loc = Here::current());

Tile relu(const Tile& x, Loc loc = Here::current());
Tile silu(const Tile& x, Loc loc = Here::current());       // x * sigmoid(x)
Tile gelu_tanh(const Tile& x, Loc loc = Here::current());  // x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
Tile gelu_erf(const Tile& x, Loc loc = Here::current());   // x/2 * (1 + erf(x / sqrt(2)))

// Softmax over all elements, or along an axis; f32. Pad with -infinity: such elements get 0.
Tile softmax(const Tile& x, Loc loc = Here::current());
Tile softmax(const Tile& x, int axis, Loc loc = Here::current());
// log(sum(exp(x))) without overflow; f32.
Scalar log_sum_exp(const Tile& x, Loc loc = Here::current());
Tile log_sum_exp(const Tile& x, int axis, Loc loc = Here::current());

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_LIBRARY_H_
