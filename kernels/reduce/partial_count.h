// Number of programs with partial sums of columns: enough to fill the machine, and few enough that
// reducing the partial sums is cheap.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/core/launch.h"

namespace ligerdsl::kernels {

// Number of partial sums per column, as a function of a call's rows.
struct PartialCount {
  Size of_rows = 1;   // number for the rows of the call
  Size most = 1;      // largest number for these rows or fewer, for the workspace size
  int64_t limit = 1;  // upper bound for any number of rows
};

// Returns a count for `tiles` tiles of rows, at most `most`.
PartialCount partial_count(const Size& tiles, int64_t most);
// Returns the count of a kernel whose clusters of `num_ctas` CTAs process whole tiles of rows. The
// count is always a multiple of `period`.
PartialCount norm_partials(const Machine& machine, int64_t tile_rows, int per_sm, int num_ctas,
                           int64_t period = 1);
// Returns the count of a kernel that splits the columns into blocks. The programs of all blocks
// together fill the machine.
PartialCount column_partials(const Machine& machine, int64_t cols, int64_t tile_rows,
                             int64_t tile_cols, int per_sm);

// Returns the reason why a GPU cannot sum over the rows of a tile with `elements` elements in
// shared memory; empty if it can. Shared memory is needed if different warps hold the rows.
std::string refused_sum_in_shared_memory(const Machine& machine, int64_t elements);

}  // namespace ligerdsl::kernels
