// Library functions composed of the DSL's ops. A kernel's author could write each of them.
#ifndef LIGERDSL_DSL_LIBRARY_H_
#define LIGERDSL_DSL_LIBRARY_H_

#include "ligerdsl/dsl/builder.h"
#include "ligerdsl/dsl/math.h"
#include "ligerdsl/dsl/operators.h"
#include "ligerdsl/dsl/reduce.h"

namespace ligerdsl {

// Returns ceil(a / b) for integers a >= 0 and b > 0.
Scalar cdiv(const Scalar& a, ScalarArg b, Loc loc = Here::current());

// Row and column of the matrix tile that a program of a one-dimensional grid computes: i32, or i64
// for the row if `program` is i64. Programs cover `group` rows of tiles, column by column, so that
// concurrent programs read the same operands from L2. The matrix has tile_rows by tile_columns
// tiles. A group has fewer than 2^31 tiles, and so has the matrix unless `program` is i64.
struct TilePlace {
  Scalar row, column;
};
TilePlace grouped_tiles(const Scalar& program, const Scalar& tile_rows, const Scalar& tile_columns,
                        int64_t group, Loc loc = Here::current());

// Unsigned comparisons of i8, i16, i32 or i64, whose bits are read as unsigned numbers: a < b
// (ult), a <= b (ule), a > b (ugt), a >= b (uge).
Tile ult(const Tile& a, TileArg b, Loc loc = Here::current());
Tile ule(const Tile& a, TileArg b, Loc loc = Here::current());
Tile ugt(const Tile& a, TileArg b, Loc loc = Here::current());
Tile uge(const Tile& a, TileArg b, Loc loc = Here::current());
Scalar ult(const Scalar& a, ScalarArg b, Loc loc = Here::current());
Scalar ule(const Scalar& a, ScalarArg b, Loc loc = Here::current());
Scalar ugt(const Scalar& a, ScalarArg b, Loc loc = Here::current());
Scalar uge(const Scalar& a, ScalarArg b, Loc loc = Here::current());

// Returns the upper half of a * b, with a and b read as unsigned numbers. It costs one
// multiplication for i32, four for i64.
Tile umulhi(const Tile& a, TileArg b, Loc loc = Here::current());
Scalar umulhi(const Scalar& a, ScalarArg b, Loc loc = Here::current());

// Return true if any element (any) or every element (all) of an i1 tile is true.
Scalar any(const Tile& x, Loc loc = Here::current());
Tile any(const Tile& x, int axis, Loc loc = Here::current());
Scalar all(const Tile& x, Loc loc = Here::current());
Tile all(const Tile& x, int axis, Loc loc = Here::current());

// Returns the sum divided by the tile's number of elements (padding included), rounded once.
Scalar mean(const Tile& x, Loc loc = Here::current());
Tile mean(const Tile& x, int axis, Loc loc = Here::current());

// Returns sum(a * b) over all elements, or along an axis. A multiplication and an addition may
// become one fma, also under exact_rounding.
Scalar sum_products(const Tile& a, const Tile& b, Loc loc = Here::current());
Tile sum_products(const Tile& a, const Tile& b, int axis, Loc loc = Here::current());

Tile relu(const Tile& x, Loc loc = Here::current());
Tile silu(const Tile& x, Loc loc = Here::current());  // x * sigmoid(x)
Tile gelu_tanh(const Tile& x,
               Loc loc = Here::current());  // x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
Tile gelu_erf(const Tile& x, Loc loc = Here::current());  // x/2 * (1 + erf(x / sqrt(2)))

// Returns the softmax over all elements, or along an axis; f32. Pad x with -infinity; padded
// elements become 0.
Tile softmax(const Tile& x, Loc loc = Here::current());
Tile softmax(const Tile& x, int axis, Loc loc = Here::current());
// Returns log(sum(exp(x))) without overflow; f32.
Scalar log_sum_exp(const Tile& x, Loc loc = Here::current());
Tile log_sum_exp(const Tile& x, int axis, Loc loc = Here::current());

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_LIBRARY_H_
