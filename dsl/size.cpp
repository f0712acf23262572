#include "ligerdsl/dsl/size.h"

#include <algorithm>
#include <ostream>

#include "ligerdsl/dsl/error.h"

namespace ligerdsl {
namespace {

constexpr int kDepth = 16;  // largest depth of the evaluation stack

}  // namespace

// Simplifies the expression, because every launch evaluates it.
Size::Size(Kind kind, const Size& a, const Size& b) : nodes_(a.nodes_) {
  const Node& divisor = b.nodes_.front();
  const bool divides = kind == Kind::ceil_div || kind == Kind::remainder;
  if (divides && b.nodes_.size() == 1 && divisor.kind == Kind::number && divisor.number < 1)
    throw Error(std::string("error: ") + (kind == Kind::ceil_div ? "ceil_div" : "%") +
                ": expected a divisor of 1 or more, got " + std::to_string(divisor.number));
  const auto is_one = [](const Size& size) { return size == Size(1); };
  if ((kind == Kind::multiply || kind == Kind::ceil_div) && is_one(b)) return;
  if (kind == Kind::multiply && is_one(a)) {
    nodes_ = b.nodes_;
    return;
  }
  nodes_.insert(nodes_.end(), b.nodes_.begin(), b.nodes_.end());
  nodes_.push_back({kind, 0});
  int depth = 0, deepest = 0;
  for (const Node& node : nodes_) {
    depth += node.kind == Kind::number || node.kind == Kind::rows ? 1 : -1;
    deepest = std::max(deepest, depth);
  }
  if (deepest > kDepth)
    throw Error("error: the size " + text() + " nests " + std::to_string(deepest) +
                " operands, expected at most 16; nest on the left, as in (a + b) + c");
}

int64_t Size::at(int64_t rows) const {
  const Node* nodes = nodes_.data();
  if (nodes_.size() == 1) return nodes->kind == Kind::rows ? rows : nodes->number;
  if (nodes_.size() == 3 && nodes[2].kind == Kind::ceil_div && nodes[0].kind == Kind::rows &&
      nodes[1].kind == Kind::number)  // ceil_div(rows, n), as in most grids
    return rows / nodes[1].number + (rows % nodes[1].number != 0);
  int64_t stack[kDepth];
  int64_t* top = stack - 1;
  for (const Node& node : nodes_) {
    if (node.kind == Kind::number || node.kind == Kind::rows) {
      *++top = node.kind == Kind::rows ? rows : node.number;
      continue;
    }
    const int64_t b = *top--;
    *top = combined(node.kind, *top, b);
  }
  return *top;
}

int64_t Size::number() const {
  const auto is_rows = [](const Node& node) { return node.kind == Kind::rows; };
  if (std::any_of(nodes_.begin(), nodes_.end(), is_rows))
    throw Error("error: expected a number, got " + text() +
                ", which depends on the call's number of rows; evaluate it with at(rows)");
  return at(0);
}

std::string Size::text() const {
  struct Part {
    std::string text;
    bool is_sum;
  };
  std::vector<Part> stack;
  const auto factor = [](const Part& part) {
    return part.is_sum ? "(" + part.text + ")" : part.text;
  };
  for (const Node& node : nodes_) {
    if (node.kind == Kind::number || node.kind == Kind::rows) {
      stack.push_back({node.kind == Kind::rows ? "rows" : std::to_string(node.number), false});
      continue;
    }
    const Part b = std::move(stack.back());
    stack.pop_back();
    const Part a = std::move(stack.back());
    const auto call = [&](const char* name) { return name + ("(" + a.text + ", " + b.text + ")"); };
    switch (node.kind) {
      case Kind::add:
        stack.back() = {a.text + " + " + b.text, true};
        break;
      case Kind::multiply:
        stack.back() = {factor(a) + " * " + factor(b), false};
        break;
      case Kind::remainder:
        stack.back() = {"(" + factor(a) + " % " + factor(b) + ")", false};
        break;
      case Kind::ceil_div:
        stack.back() = {call("ceil_div"), false};
        break;
      case Kind::min:
        stack.back() = {call("min"), false};
        break;
      case Kind::max:
        stack.back() = {call("max"), false};
        break;
      case Kind::at_least:
        stack.back() = {"(" + a.text + " >= " + b.text + ")", false};
        break;
      case Kind::number:
      case Kind::rows:
        break;  // handled above
    }
  }
  return stack.back().text;
}

std::ostream& operator<<(std::ostream& out, const Size& size) {
  return out << size.text();
}

}  // namespace ligerdsl
