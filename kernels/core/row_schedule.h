// Schedule of row kernels: its fields, its default and its conditions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/core/launch.h"
#include "kernels/core/tile_shape.h"
#include "ligerdsl/dsl/meta.h"
#include "program/gpu_arch.h"

namespace ligerdsl::kernels {

// Place of a row between its two uses: a row kernel reads each row for its statistics and again for
// the result.
enum class Keep {
  registers,  // a CTA holds whole rows in one tile
  shared,     // a CTA reads blocks of a row twice; shared memory caches what fits
              // (docs/design/architecture.md)
  cluster,    // like shared, but each CTA of a cluster has a part of every block
};

struct RowConfig {
  Keep keep = Keep::registers;
  int rows = 1;  // rows per tile; 1 unless keep is registers
  int num_warps = 4;
  int vectors = 0;  // 16-byte vectors per thread and block; 0 with keep=registers (whole rows)
  int num_ctas = 1;
  int min_ctas_per_sm = 0;  // 0: no minimum

  // Returns true if a tile has whole rows.
  bool whole() const { return keep == Keep::registers; }
  // Columns per tile, or per block over all CTAs of a cluster.
  int64_t columns(DType type, int64_t cols) const {
    return whole() ? tile_width(cols)
                   : int64_t{num_ctas} * program::kWarpThreads * num_warps * vector_width(type) *
                         vectors;
  }
  // Number of vectors of a tile in each thread.
  int64_t held(DType type, int64_t cols) const {
    return rows * columns(type, cols) /
           (int64_t{num_ctas} * program::kWarpThreads * num_warps * vector_width(type));
  }
  // Returns a launch with one program per tile of rows.
  Launch launch() const;

  // `bits`: effect of a changed field on the bits of the results. It is larger than Bits::row if a
  // kernel sums over the rows of a tile.
  template <class V>
  void visit(V&& v, Bits bits = Bits::row) {
    v("keep", keep, {"registers", "shared", "cluster"}, bits);
    v("rows", rows, powers_of_two(1, 2048), bits);
    v("num_warps", num_warps, powers_of_two(1, 32), bits);
    v("vectors", vectors, choices({0, 1, 2, 3, 4, 5, 6, 7, 8, 16}), bits);
    v("num_ctas", num_ctas, powers_of_two(1, 16), bits);
    v("min_ctas_per_sm", min_ctas_per_sm, choices({0, 1, 2, 3, 4, 5, 6, 7, 8}), bits);
  }
};

// Returns a schedule with tiles of whole rows and about `vectors` vectors per thread.
RowConfig whole_rows(const Machine& machine, DType type, int64_t cols, int64_t vectors);
// Returns a schedule in which a CTA reads blocks of `block` columns, with `vectors` vectors per
// thread.
RowConfig rows_in_blocks(DType type, int64_t block, int64_t vectors);
// Bytes of a row, in all streams, below which a cluster has 4 CTAs. Longer rows use 8 or 16 CTAs.
inline constexpr int64_t kSharedByEight = 128 * 1024;
// Minimum bytes, in all streams, of rows that clusters share in LayerNorm and residual RMSNorm.
inline constexpr int64_t kSharedRow = kSharedByEight;

// Returns a schedule in which a cluster shares each row, or none if the machine or the rows do not
// allow it. `of` gives num_warps and the largest number of vectors. Clusters grow, up to 16 CTAs,
// until kept_by_cluster() holds for of.min_ctas_per_sm. `streams`: arrays that are read twice.
std::optional<RowConfig> rows_in_cluster(const Machine& machine, DType type, int64_t cols,
                                         RowConfig of, int64_t streams = 1);
// Returns true if an SM has shared memory for the parts of `ctas_per_sm` CTAs. Each CTA has one of
// `num_ctas` parts of a row of `bytes` bytes. The limit leaves room for loads of the next rows and
// for data that all rows share.
bool kept_by_cluster(const Machine& machine, int num_ctas, int64_t bytes, int ctas_per_sm);

// Returns the reason why rows of `cols` elements cannot have this schedule; empty if they can.
std::string refused(const Machine& machine, DType type, int64_t cols, const RowConfig& config);

// Returns the reason why blocks cannot be distributed over lanes (block_lanes); empty if they can.
std::string refused_lanes(const RowConfig& config);

}  // namespace ligerdsl::kernels
