// Elementwise functions. Most accept only f32 (ops.def); convert their arguments with .to(f32).
// Each function is within 2.5 ulp over the whole range; tanh, erf and sigmoid are within 1e-6
// absolute and 1e-5 relative. The fast_ variants may use approximate instructions of the target.
// docs/reference/dsl-elementwise.md gives the bound of each function.
#ifndef LIGERDSL_DSL_MATH_H_
#define LIGERDSL_DSL_MATH_H_

#include "ligerdsl/dsl/operands.h"

namespace ligerdsl {

#define LIGERDSL_DECLARE_UNARY(fn)                   \
  Tile fn(const Tile& x, Loc loc = Here::current()); \
  Scalar fn(const Scalar& x, Loc loc = Here::current());

LIGERDSL_DECLARE_UNARY(abs)
// Declares the functions of ops.def: floor, ceil and round (any float; round breaks ties to even),
// exp, fast_exp and so on.
#define LIGERDSL_MATH(name, ...) LIGERDSL_DECLARE_UNARY(name)
#define LIGERDSL_FAST_MATH(name, ...) \
  LIGERDSL_DECLARE_UNARY(name) LIGERDSL_DECLARE_UNARY(fast_##name)
#include "ligerdsl/dsl/ops.def"
#undef LIGERDSL_DECLARE_UNARY

#define LIGERDSL_DECLARE_BINARY(fn)                                       \
  Tile fn(const Tile& a, const Tile& b, Loc loc = Here::current());       \
  Tile fn(const Tile& a, ScalarArg b, Loc loc = Here::current());         \
  Tile fn(ScalarArg a, const Tile& b, Loc loc = Here::current());         \
  Scalar fn(const Scalar& a, const Scalar& b, Loc loc = Here::current()); \
  Scalar fn(const Scalar& a, NumberArg b, Loc loc = Here::current());     \
  Scalar fn(NumberArg a, const Scalar& b, Loc loc = Here::current());

LIGERDSL_DECLARE_BINARY(min)       // elementwise; NaN if either is NaN. reduce_min reduces an axis
LIGERDSL_DECLARE_BINARY(max)       // elementwise; NaN if either is NaN. reduce_max reduces an axis
LIGERDSL_DECLARE_BINARY(fast_div)  // f32, approximate
LIGERDSL_DECLARE_BINARY(pow)       // f32: a to the power of b, with the special values of C's powf
LIGERDSL_DECLARE_BINARY(lshr)      // logical shift right: fills with zeros (>> keeps the sign)
LIGERDSL_DECLARE_BINARY(udiv)      // i32 and i64, with the bits read as unsigned numbers
LIGERDSL_DECLARE_BINARY(urem)
#undef LIGERDSL_DECLARE_BINARY

// Returns min(max(x, lo), hi).
Tile clamp(const Tile& x, TileArg lo, TileArg hi, Loc loc = Here::current());
Scalar clamp(const Scalar& x, ScalarArg lo, ScalarArg hi, Loc loc = Here::current());

// Returns the same bits as another type of the same width: f32 and i32; f16, bf16 and i16; fp8 and
// i8. The bits of a NaN may become those of another NaN.
Tile bitcast(const Tile& x, DType dtype, Loc loc = Here::current());
Scalar bitcast(const Scalar& x, DType dtype, Loc loc = Here::current());

// Returns a * b + c, rounded once; floats.
Tile fma(const Tile& a, TileArg b, TileArg c, Loc loc = Here::current());
Scalar fma(const Scalar& a, ScalarArg b, ScalarArg c, Loc loc = Here::current());

// Returns condition ? a : b, elementwise. Both values are evaluated. At least one of a and b is a
// tile or scalar.
Tile where(const Tile& condition, TileArg a, TileArg b, Loc loc = Here::current());
Tile where(const Scalar& condition, const Tile& a, TileArg b, Loc loc = Here::current());
Tile where(const Scalar& condition, ScalarArg a, const Tile& b, Loc loc = Here::current());
Scalar where(const Scalar& condition, ScalarArg a, ScalarArg b, Loc loc = Here::current());

// Free functions that call the methods of Tile and Scalar.
inline Tile broadcast_to(const Tile& x, const Shape& shape, Loc loc = Here::current()) {
  return x.broadcast_to(shape, loc);
}
inline Tile broadcast_to(const Scalar& x, const Shape& shape, Loc loc = Here::current()) {
  return x.broadcast_to(shape, loc);
}
inline Tile expand_dims(const Tile& x, int axis, Loc loc = Here::current()) {
  return x.expand_dims(axis, loc);
}
inline Tile reshape(const Tile& x, const Shape& shape, Loc loc = Here::current()) {
  return x.reshape(shape, loc);
}
inline Tile permute(const Tile& x, const std::vector<int>& order, Loc loc = Here::current()) {
  return x.permute(order, loc);
}

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_MATH_H_
