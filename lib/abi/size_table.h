// Table of a plan's sizes (ligerdsl::Size). Sizes that do not depend on rows are computed when the
// plan is made. Subexpressions that several sizes share are computed once per call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ligerdsl/dsl/kernel.h"
#include "ligerdsl/dsl/size.h"

namespace ligerdsl::lib {

class SizeTable {
 public:
  using Index = uint8_t;
  static constexpr size_t kMost = 96;
  struct Values {
    std::array<int64_t, kMost> of;
    int64_t operator[](Index index) const { return of[index]; }
  };

  // Returns the index of the size's value. Throws Error if the table is full.
  Index add(const Size& size);
  std::array<Index, 3> add(
      const Launch& launch);  // returns the indices of the grid's sizes; an omitted axis has size 1
  // Computes every value for `rows` rows. Does not allocate.
  void compute(int64_t rows, Values* values) const;

 private:
  struct Operation {
    Size::Kind kind;
    Index a, b, result;
  };

  bool is_number(Index index) const;
  Index number(int64_t value);
  Index operation(Size::Kind kind, Index a, Index b);
  Index next();

  // Values are copied in groups of kStride.
  static constexpr size_t kStride = 4;
  static_assert(kMost % kStride == 0);

  size_t used_ = 1;                          // number of values; the first is the number of rows
  std::array<int64_t, kMost> numbers_ = {};  // constants by index; 0 for other values
  std::vector<Operation> operations_;
};

inline void SizeTable::compute(int64_t rows, Values* values) const {
  for (size_t i = 0; i < used_; i += kStride)
    std::memcpy(&values->of[i], &numbers_[i], kStride * sizeof(int64_t));
  values->of[0] = rows;
  for (const Operation& op : operations_)
    values->of[op.result] = Size::combined(op.kind, values->of[op.a], values->of[op.b]);
}

}  // namespace ligerdsl::lib
