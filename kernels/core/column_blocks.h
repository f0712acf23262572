// Matrix of n rows whose columns are stored in blocks: [blocks, n, 2^block_shift]. The memory of a
// block can be reused as soon as the block is no longer needed.
#pragma once

#include <bit>

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Column c is column c % 2^block_shift of block c >> block_shift. Tile widths are powers of two,
// and at most 2^block_shift.
class ColumnBlocks {
 public:
  explicit ColumnBlocks(KernelBuilder& k) : k_(k), shift_(k.scalar("block_shift", i32).to(i64)) {}

  // Returns the indices in a view of blocks for tile (row, column), if tiles are `columns` wide.
  Indices at(const Scalar& row, const Scalar& column, int64_t columns = 1) const {
    const Scalar number = column.to(i64),
                 shift = shift_ - std::countr_zero(static_cast<uint64_t>(columns));
    return {number >> shift, row, number & ((k_.constant(1, i64) << shift) - 1)};
  }
  Scalar width() const { return k_.constant(1, i64) << shift_; }

 private:
  KernelBuilder& k_;
  Scalar shift_;
};

}  // namespace ligerdsl::kernels
