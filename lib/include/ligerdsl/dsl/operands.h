// Argument wrappers. They accept a number or a scalar in place of a tile, and record the author's
// source location. An operator cannot have default arguments, so the converting constructor takes
// the location.
#ifndef LIGERDSL_DSL_OPERANDS_H_
#define LIGERDSL_DSL_OPERANDS_H_

#include <type_traits>

#include "ligerdsl/dsl/values.h"

namespace ligerdsl {
namespace detail {

template <class T>
concept Arithmetic = std::is_arithmetic_v<T>;

// A host number. It gets the dtype of the other operand.
struct Number {
  bool is_float = false;
  int64_t integer = 0;
  double real = 0.0;

  Number() = default;
  template <Arithmetic T>
  explicit Number(T value)
      : is_float(std::is_floating_point_v<T>), real(static_cast<double>(value)) {
    if constexpr (!std::is_floating_point_v<T>) integer = static_cast<int64_t>(value);
  }
};

// Any operand: a number if `is_number` is set, else a handle.
struct Operand {
  Handle handle;
  bool is_number = false;
  Number number;
  Loc loc;

  Operand(const Value& value, Loc at) : handle(value.handle()), loc(at) {}
  Operand(Number value, Loc at) : is_number(true), number(value), loc(at) {}
};

}  // namespace detail

// A handle of kind T with the source location of the expression.
template <class T>
struct At : detail::Operand {
  At(const T& value, Loc at = Here::current())
      : Operand(value, at) {}  // NOLINT: implicit by design
};

// A number.
struct NumberArg : detail::Operand {
  template <detail::Arithmetic T>
  NumberArg(T value, Loc at = Here::current()) : Operand(detail::Number(value), at) {}  // NOLINT
};

// A scalar or a number.
struct ScalarArg : detail::Operand {
  ScalarArg(const Scalar& value, Loc at = Here::current()) : Operand(value, at) {}  // NOLINT
  template <detail::Arithmetic T>
  ScalarArg(T value, Loc at = Here::current()) : Operand(detail::Number(value), at) {}  // NOLINT
};

// A tile, a scalar or a number.
struct TileArg : detail::Operand {
  TileArg(const Tile& value, Loc at = Here::current()) : Operand(value, at) {}    // NOLINT
  TileArg(const Scalar& value, Loc at = Here::current()) : Operand(value, at) {}  // NOLINT
  template <detail::Arithmetic T>
  TileArg(T value, Loc at = Here::current()) : Operand(detail::Number(value), at) {}  // NOLINT
};

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_OPERANDS_H_
