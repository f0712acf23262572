// Abstract values: a program's values in an evaluation without data.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "program/program.h"

namespace ligerdsl::analysis {

inline constexpr size_t kMaxRank = 6;

// A scalar, an integer or pointer tile with elements base + step[0] i0 + step[1] i1 ..., or a mask
// that is true in a box.
struct Value {
  enum class Kind : uint8_t { unknown, integer, real, box };
  Kind kind = Kind::unknown;
  int64_t base = 0;                      // pointers: in bytes from the start of the argument
  double real = 0;                       // floats: equal in all elements
  std::array<int64_t, kMaxRank> step{};  // integer tiles
  std::array<int64_t, kMaxRank> first{}, end{};  // box: range of true elements per dimension
  int argument = -1;  // views, pointers and tiles of pointers; -1 if unknown

  bool operator==(const Value&) const = default;
  bool is_integer() const { return kind == Kind::integer; }
  bool is_uniform() const;  // an integer, equal in all elements
};

Value integer_value(int64_t value);
Value real_value(double value);
// Returns a mask that is true (or false) in all elements of the shape.
Value uniform_mask(bool truth, const program::Shape& shape);

// Returns the number of true elements of a mask of this shape, or nullopt for an unknown mask.
std::optional<int64_t> true_elements(const Value& mask, const program::Shape& shape);

// Evaluates an elementwise operation on values of one shape. The result is unknown if Value cannot
// represent it. `type` is the result's type, and `operand` the first operand's.
Value evaluate_elementwise(const program::Op& op, const Value* const* operands,
                           const program::Type& operand, const program::Type& type);
// Evaluates an operation that moves values: splat, expand_dims, broadcast, reshape, permute.
Value evaluate_shape(const program::Op& op, const Value& value, const program::Type& from,
                     const program::Type& to);

}  // namespace ligerdsl::analysis
