#include "lib/abi/size_table.h"

#include <algorithm>
#include <string>

#include "ligerdsl/dsl/error.h"

namespace ligerdsl::lib {

namespace {

constexpr SizeTable::Index kRows = 0;

}  // namespace

SizeTable::Index SizeTable::add(const Size& size) {
  std::vector<Index> operands;
  for (const Size::Node& node : size.nodes()) {
    if (node.kind == Size::Kind::rows) {
      operands.push_back(kRows);
    } else if (node.kind == Size::Kind::number) {
      operands.push_back(number(node.number));
    } else {
      const Index b = operands.back();
      operands.pop_back();
      operands.back() = operation(node.kind, operands.back(), b);
    }
  }
  return operands.back();
}

std::array<SizeTable::Index, 3> SizeTable::add(const Launch& launch) {
  std::array<Index, 3> axes;
  for (size_t axis = 0; axis < axes.size(); ++axis)
    axes[axis] = add(axis < launch.grid.size() ? launch.grid[axis] : Size(1));
  return axes;
}

bool SizeTable::is_number(Index index) const {
  return index != kRows && std::none_of(operations_.begin(), operations_.end(),
                                        [&](const Operation& op) { return op.result == index; });
}

SizeTable::Index SizeTable::number(int64_t value) {
  for (size_t i = 0; i < used_; ++i) {
    const auto index = static_cast<Index>(i);
    if (numbers_[i] == value && is_number(index)) return index;
  }
  const Index index = next();
  numbers_[index] = value;
  return index;
}

SizeTable::Index SizeTable::operation(Size::Kind kind, Index a, Index b) {
  if (is_number(a) && is_number(b)) return number(Size::combined(kind, numbers_[a], numbers_[b]));
  for (const Operation& op : operations_) {
    if (op.kind == kind && op.a == a && op.b == b) return op.result;
  }
  const Index result = next();
  operations_.push_back({kind, a, b, result});
  return result;
}

SizeTable::Index SizeTable::next() {
  if (used_ == kMost)
    throw Error("error: a plan's grids and scratch buffers need more than " +
                std::to_string(kMost) + " values");
  return static_cast<Index>(used_++);
}

}  // namespace ligerdsl::lib
