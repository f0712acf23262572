// Number of programs or elements, as an expression in the call's number of rows. The launch
// evaluates it. A plain number is also a Size.
//
//   const Size rows = Size::rows();
//   (ceil_div(rows, 4) * 8).at(4096)    // 8192
//
// Grids of the library's own kernels depend on rows. An author's launch rule knows the sizes of the
// call and returns numbers. Numbers are 0 or more. `+` and `*` saturate at INT64_MAX instead of
// wrapping, and every limit check rejects INT64_MAX.
#ifndef LIGERDSL_DSL_SIZE_H_
#define LIGERDSL_DSL_SIZE_H_

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace ligerdsl {

class Size {
 public:
  enum class Kind : uint8_t {
    number,
    rows,
    add,
    multiply,
    ceil_div,
    remainder,
    min,
    max,
    at_least
  };
  struct Node {
    Kind kind;
    int64_t number;
    bool operator==(const Node&) const = default;
  };

  Size(std::integral auto number)
      : Size(Kind::number, static_cast<int64_t>(number)) {}  // NOLINT: a number is a size
  static Size rows() { return {Kind::rows, 0}; }

  // Returns the value for `rows` rows. Allocates no memory.
  int64_t at(int64_t rows) const;
  // Returns the value of a size that does not depend on rows. Throws ligerdsl::Error if it does.
  int64_t number() const;
  // Returns the expression as text: "ceil_div(rows, 4) * 8".
  std::string text() const;

  friend Size operator+(const Size& a, const Size& b) { return {Kind::add, a, b}; }
  friend Size operator*(const Size& a, const Size& b) { return {Kind::multiply, a, b}; }
  friend Size ceil_div(const Size& a, const Size& b) {
    return {Kind::ceil_div, a, b};
  }  // throws for a number b < 1; at() returns INT64_MAX if an expression b is less than 1
  friend Size operator%(const Size& a, const Size& b) {
    return {Kind::remainder, a, b};
  }  // b < 1: like ceil_div
  friend Size min(const Size& a, const Size& b) { return {Kind::min, a, b}; }
  friend Size max(const Size& a, const Size& b) { return {Kind::max, a, b}; }
  // Returns `size` if a >= b, else 0.
  friend Size where_at_least(const Size& a, const Size& b, const Size& size) {
    return Size(Kind::at_least, a, b) * size;
  }

  // Returns the expression in postfix order: operands precede their operation.
  const std::vector<Node>& nodes() const { return nodes_; }
  // Returns the result of an operation on its two operands.
  static int64_t combined(Kind kind, int64_t a, int64_t b);

  bool operator==(const Size&) const = default;

 private:
  Size(Kind kind, int64_t number) : nodes_{{kind, number}} {}
  Size(Kind kind, const Size& a, const Size& b);

  std::vector<Node> nodes_;
};

inline int64_t Size::combined(Kind kind, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (kind) {
    case Kind::add:
      return __builtin_add_overflow(a, b, &result) ? INT64_MAX : result;
    case Kind::multiply:
      return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
    case Kind::ceil_div:
      return b < 1 ? INT64_MAX : a / b + (a % b != 0);
    case Kind::remainder:
      return b < 1 ? INT64_MAX : a % b;
    case Kind::min:
      return a < b ? a : b;
    case Kind::max:
      return a < b ? b : a;
    case Kind::at_least:
      return a >= b;
    case Kind::number:
    case Kind::rows:
      break;  // have no operands
  }
  return result;
}

std::ostream& operator<<(std::ostream& out, const Size& size);

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_SIZE_H_
