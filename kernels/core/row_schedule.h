// Choices that kernels over rows share, and what makes them possible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/core/launch.h"
#include "kernels/core/tile_shape.h"
#include "ligerdsl/dsl/meta.h"
#include "program/gpu_arch.h"

namespace ligerdsl::kernels {

// Where a row waits that is read for its statistics and again for the result.
enum class Keep {
  registers,  // a CTA has whole rows in one tile
  shared,     // a CTA goes through blocks of a row twice; shared memory keeps what fits (docs/architecture.md)
  cluster,    // the same by the CTAs of a cluster, each with its part of every block
};

struct RowConfig {
  Keep keep = Keep::registers;
  int rows = 1;  // of a tile; 1 unless keep is registers
  int num_warps = 4;
  int vectors = 0;  // of 16 bytes that a thread has of a block; 0 where keep is registers: what the row makes it
  int num_ctas = 1;
  int min_ctas_per_sm = 0;  // 0: no floor

  bool whole() const { return keep == Keep::registers; }
  // Columns of a tile, or of the block of all CTAs of a cluster.
  int64_t columns(DType type, int64_t cols) const {
    return whole() ? tile_width(cols)
                   : int64_t{num_ctas} * program::kWarpThreads * num_warps * vector_width(type) * vectors;
  }
  // Vectors of a tile that a thread holds.
  int64_t held(DType type, int64_t cols) const {
    return rows * columns(type, cols) / (int64_t{num_ctas} * program::kWarpThreads * num_warps * vector_width(type));
  }
  // For so many rows, without the program.
  Launch launch() const;

  // `bits`: what differs where it is taken otherwise; more than a row where rows of a tile are added up.
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

// Rows of `cols` elements as tiles of whole rows, with about so many vectors per thread.
RowConfig whole_rows(const Machine& machine, DType type, int64_t cols, int64_t vectors);
// In blocks of so many columns that a CTA reads.
RowConfig rows_in_blocks(DType type, int64_t block, int64_t vectors);
// Rows below so many bytes are shared by four CTAs, others by eight, or sixteen of the longest.
inline constexpr int64_t kSharedByEight = 128 * 1024;
// Bytes from which on the norms' rows are shared.
inline constexpr int64_t kSharedRow = kSharedByEight;

// Shared by a cluster. `of` says num_warps, min_ctas_per_sm (how many of these CTAs an SM is to have room for) and the
// most vectors; rows are of `streams` arrays that are read twice. None where the machine or the rows do not allow it.
std::optional<RowConfig> rows_in_cluster(const Machine& machine, DType type, int64_t cols, RowConfig of,
                                         int64_t streams = 1);
// Whether so many CTAs, one of each SM's, have about room for a row of this many bytes. An SM has room for the parts of
// its CTAs and for what of the next rows' and of what all rows share keeps memory busy.
bool kept_by_cluster(const Machine& machine, int num_ctas, int64_t bytes, int ctas_per_sm);

// Why rows of this kind cannot be taken so; empty: they can.
std::string refused(const Machine& machine, DType type, int64_t cols, const RowConfig& config);

// Why blocks cannot be dealt to lanes (block_lanes); empty: they can.
std::string refused_lanes(const RowConfig& config);

}  // namespace ligerdsl::kernels
