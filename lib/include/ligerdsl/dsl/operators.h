// Operators. Rules:
//   * Two tiles need equal dtypes and ranks; dimensions of 1 broadcast. Convert with .to(dtype),
//     and raise the rank with .expand_dims(axis).
//   * A number takes the dtype of the other operand. A scalar of the tile's dtype, or of a narrower
//     integer type, fills the tile.
//   * If two integer scalars have different widths, the narrower one is widened.
//   * / and % of integers round toward zero. / of floats is IEEE division; fast_div is approximate.
//   * Comparisons return i1. & | ^ ~ work on i1 and integers, ! on i1. && and || are & and | on i1:
//     both sides are always evaluated.
#ifndef LIGERDSL_DSL_OPERATORS_H_
#define LIGERDSL_DSL_OPERATORS_H_

#include "ligerdsl/dsl/operands.h"

namespace ligerdsl {

// Declares an operator for all kinds of operands.
#define LIGERDSL_DECLARE_OPERATOR(op)             \
  Tile operator op(At<Tile> a, At<Tile> b);       \
  Tile operator op(At<Tile> a, ScalarArg b);      \
  Tile operator op(ScalarArg a, At<Tile> b);      \
  Scalar operator op(At<Scalar> a, At<Scalar> b); \
  Scalar operator op(At<Scalar> a, NumberArg b);  \
  Scalar operator op(NumberArg a, At<Scalar> b);

LIGERDSL_DECLARE_OPERATOR(+)
LIGERDSL_DECLARE_OPERATOR(-)
LIGERDSL_DECLARE_OPERATOR(*)
LIGERDSL_DECLARE_OPERATOR(/)
LIGERDSL_DECLARE_OPERATOR(%)
LIGERDSL_DECLARE_OPERATOR(==)
LIGERDSL_DECLARE_OPERATOR(!=)
LIGERDSL_DECLARE_OPERATOR(<)
LIGERDSL_DECLARE_OPERATOR(<=)
LIGERDSL_DECLARE_OPERATOR(>)
LIGERDSL_DECLARE_OPERATOR(>=)
LIGERDSL_DECLARE_OPERATOR(&)
LIGERDSL_DECLARE_OPERATOR(|)
LIGERDSL_DECLARE_OPERATOR(^)
LIGERDSL_DECLARE_OPERATOR(<<)
LIGERDSL_DECLARE_OPERATOR(>>)
LIGERDSL_DECLARE_OPERATOR(&&)
LIGERDSL_DECLARE_OPERATOR(||)
#undef LIGERDSL_DECLARE_OPERATOR

// Sets a to a op b, which must keep the dtype and shape of a. Earlier copies of the handle keep the
// old value.
#define LIGERDSL_DECLARE_ASSIGNMENT(op)  \
  Tile& operator op(Tile& a, TileArg b); \
  Scalar& operator op(Scalar& a, ScalarArg b);

LIGERDSL_DECLARE_ASSIGNMENT(+=)
LIGERDSL_DECLARE_ASSIGNMENT(-=)
LIGERDSL_DECLARE_ASSIGNMENT(*=)
LIGERDSL_DECLARE_ASSIGNMENT(/=)
LIGERDSL_DECLARE_ASSIGNMENT(%=)
LIGERDSL_DECLARE_ASSIGNMENT(&=)
LIGERDSL_DECLARE_ASSIGNMENT(|=)
LIGERDSL_DECLARE_ASSIGNMENT(^=)
LIGERDSL_DECLARE_ASSIGNMENT(<<=)
LIGERDSL_DECLARE_ASSIGNMENT(>>=)
#undef LIGERDSL_DECLARE_ASSIGNMENT

Tile operator-(At<Tile> a);
Scalar operator-(At<Scalar> a);
Tile operator~(At<Tile> a);
Scalar operator~(At<Scalar> a);
Tile operator!(At<Tile> a);
Scalar operator!(At<Scalar> a);

// Pointer arithmetic, in elements. Offsets are i32 or i64.
Ptr operator+(At<Ptr> p, ScalarArg offset);
PtrTile operator+(At<Ptr> p, At<Tile> offset);
PtrTile operator+(At<PtrTile> p, At<Tile> offset);
PtrTile operator+(At<PtrTile> p, ScalarArg offset);

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_OPERATORS_H_
