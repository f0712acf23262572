// Matrices whose columns are stored in blocks of 2^block_shift: [blocks, n, 2^block_shift]. The
// memory of one block can be reused as soon as that block is no longer needed.
#pragma once

#include <bit>

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// The upper bits of a column's number select the block. Tile widths are powers of two and at most a
// block.
class ColumnBlocks {
 public:
  explicit ColumnBlocks(KernelBuilder& k) : k_(k), shift_(k.scalar("block_shift", i32).to(i64)) {}

  // Returns the indices of tile (row, column), `columns` columns wide, in a view of blocks.
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
