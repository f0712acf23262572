// A ragged row has a length that is not a multiple of a 16-byte vector. Its tile begins at the
// 16-byte boundary at or before the row (View::alignment_offset), so all accesses are whole
// vectors.
#pragma once

#include <cstdint>
#include <numeric>

#include "kernels/core/launch.h"
#include "kernels/core/row_schedule.h"
#include "ligerdsl/dsl/tile_shape.h"

namespace ligerdsl::kernels {

// Returns the smallest n such that rows r and r + n have the same alignment offset, if there are no
// gaps between rows. It is 8 for 4097 columns of bf16, and 1 for 4096 columns.
inline int64_t row_period(DType type, int64_t cols) {
  return vector_width(type) / std::gcd(vector_width(type), cols);
}

// Returns true if rows are ragged and the kernel runs on a GPU. CPU kernels need no alignment.
inline bool has_ragged_rows(const Machine& machine, DType type, int64_t cols) {
  return machine.is_gpu() && row_period(type, cols) > 1;
}

// Returns the columns of a tile that holds a whole row at any alignment offset.
inline int64_t columns_with_offset(DType type, int64_t cols) {
  return cols + vector_width(type) - 1;
}

// Returns true if tiles of this schedule begin at 16-byte boundaries although rows do not. Such
// tiles have one row, because adjacent rows have different alignment offsets.
inline bool has_aligned_blocks(const Machine& machine, DType type, int64_t cols,
                               const RowConfig& config) {
  return config.rows == 1 && config.keep != Keep::cluster && has_ragged_rows(machine, type, cols);
}

// Returns the columns that a tile of a whole row must hold: `cols`, plus the largest alignment
// offset if tiles begin at 16-byte boundaries.
inline int64_t tile_columns(const Machine& machine, DType type, int64_t cols,
                            const RowConfig& config) {
  const bool wider = config.whole() && has_aligned_blocks(machine, type, cols, config);
  return wider ? columns_with_offset(type, cols) : cols;
}

}  // namespace ligerdsl::kernels
