// Matrices whose columns lie in blocks of 2^block_shift, [blocks, n, 2^block_shift], so that memory becomes free block by block.
#pragma once

#include <bit>

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Blocks are told apart by the bits of a column's number. Tiles are as wide as a power of two, and no wider than a block.
class ColumnBlocks {
 public:
  explicit ColumnBlocks(KernelBuilder& k) : k_(k), shift_(k.scalar("block_shift", i32).to(i64)) {}

  // Of tile (row, column), of so many columns, in a view of blocks.
  Indices at(const Scalar& row, const Scalar& column, int64_t columns = 1) const {
    const Scalar number = column.to(i64), shift = shift_ - std::countr_zero(static_cast<uint64_t>(columns));
    return {number >> shift, row, number & ((k_.constant(1, i64) << shift) - 1)};
  }
  Scalar width() const { return k_.constant(1, i64) << shift_; }

 private:
  KernelBuilder& k_;
  Scalar shift_;
};

}  // namespace ligerdsl::kernels
