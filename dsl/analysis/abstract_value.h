// Abstract values represent a program's values when it is evaluated without the data in memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "program/program.h"

namespace ligerdsl::analysis {

inline constexpr size_t kMaxRank = 6;

// A scalar, a tile or a mask. Element (i0, i1, ...) of an integer or pointer tile is
// base + step[0] * i0 + step[1] * i1 + .... A mask is true inside a box and false outside.
struct Value {
  enum class Kind : uint8_t { unknown, integer, real, box };
  Kind kind = Kind::unknown;
  int64_t base = 0;                      // of a pointer: bytes from the start of its argument
  double real = 0;                       // value of a float, or of every element of a float tile
  std::array<int64_t, kMaxRank> step{};  // of an integer or pointer tile
  std::array<int64_t, kMaxRank> first{}, end{};  // of a box: [first, end) in each dimension
  int argument = -1;  // number of the argument that a view or pointer refers to; -1 if unknown

  bool operator==(const Value&) const = default;
  bool is_integer() const { return kind == Kind::integer; }
  bool is_uniform() const;  // true if all elements are one integer
};

Value integer_value(int64_t value);
Value real_value(double value);
// Returns a mask that is true (or false) in all elements of the shape.
Value uniform_mask(bool truth, const program::Shape& shape);

// Returns the number of true elements of a mask of this shape, or nullopt for an unknown mask.
std::optional<int64_t> true_elements(const Value& mask, const program::Shape& shape);

// Evaluates an elementwise operation on values of one shape. The result is unknown if Value cannot
// represent it. `type` is the type of the result. `operand` is the type of the first operand; for
// select, of the first value.
Value evaluate_elementwise(const program::Op& op, const Value* const* operands,
                           const program::Type& operand, const program::Type& type);
// Evaluates an operation that moves values: splat, expand_dims, broadcast, reshape, permute.
Value evaluate_shape(const program::Op& op, const Value& value, const program::Type& from,
                     const program::Type& to);

}  // namespace ligerdsl::analysis
