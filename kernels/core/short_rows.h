// Tiles of several short rows that may begin at any element.
//
// A tile [rows, columns] has whole rows, and each warp has one or more of them. The lanes that
// share a row reduce it with few exchanges. Work per row is done for all rows of a warp at once.
//
// Rows may begin at any element. A tile therefore has every step-th row: r, r + step, r + 2 step
// ... `step` rows are a multiple of 16 bytes, so all rows of a tile have one alignment offset
// (View::every). They are read and written as vectors. `step` consecutive programs cover adjacent
// rows.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Tile of short rows; each row uses `lanes` lanes of a warp.
struct ShortRowTile {
  int64_t columns = 0;  // of the tile, including an alignment offset if rows need one
  int64_t lanes = 1;
  int64_t elements() const { return columns / lanes; }  // per lane and row
};

// Most elements per lane and row; a kernel that holds more would spill.
inline constexpr int64_t kMostElementsPerLane = 72;

// Work of a row. A row's predicted time is the cube root of the sum of the cubes of
//   bytes / 4.5                                        memory
//   columns / 32 * per_element + per_row * lanes / 32  instructions
// Both are in issue slots: a slot issues one instruction of a warp. An H200 has 528 schedulers at
// 1.75 GHz and moves 4.2 TB/s, which is 4.5 bytes per slot.
struct ShortRowWork {
  double bytes;        // read and written
  double per_element;  // instructions
  double per_row;      // instructions per lane that do not depend on its elements
  int64_t most_elements = kMostElementsPerLane;  // fewer if an element takes several registers
};

// Returns the tile with the least predicted time for rows of `cols` elements, or none if a row does
// not fit in a warp. Among tiles with the same time, it is the one with the fewest elements per
// lane, which leaves room for more warps.
std::optional<ShortRowTile> short_row_tile(DType type, int64_t cols, const ShortRowWork& work);

// Returns a tile's number of rows for programs of num_warps warps. A thread has a part of one row,
// or parts of several rows if each part has few elements.
int64_t rows_of_tile(const ShortRowTile& tile, int num_warps);

// Returns the step between the rows of a tile. It is 1 on a CPU, or if the tile has no room for an
// alignment offset.
int64_t row_step(const Machine& machine, DType type, int64_t cols, const ShortRowTile& tile);

// Returns the number of programs that cover all rows with tiles of `rows` rows and this step.
Size programs_of_tiles(int64_t rows, int64_t step);

// Rows of a program's tile.
class TileRows {
 public:
  TileRows(KernelBuilder& k, int64_t rows, int64_t step);

  // Returns a view of every step-th row. Tile block() of this view has the program's rows.
  View of(const View& view) const { return step_ == 1 ? view : view.every(0, step_, residue_); }
  const Scalar& block() const { return block_; }
  Tile indices() const;  // row numbers, i64
  // Returns the alignment offset that all rows of the tile share; empty with step 1.
  Scalar alignment_offset(const View& view) const {
    return step_ == 1 ? Scalar() : of(view).alignment_offset({0});
  }

 protected:
  KernelBuilder& k_;
  int64_t rows_, step_;
  Scalar residue_, block_;
};

}  // namespace ligerdsl::kernels
