// Finds the tiles of rows that have a counted row, so that matmuls skip the other tiles.
//
// Counted tiles (with a counted row) are stored together at the end of a buffer for all rows, so
// that a partial last tile keeps its place. The other tiles have the places before the counted
// tiles, and matmuls do not access them.
#pragma once

#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Rows: tiles of `rows` rows. Arguments: labels [n]; ignore_index i64, the label of rows that are
// not counted. Outputs, i32:
// - places [tiles]: a tile's place p, or -1 - p if the tile has no counted row
// - tile_at [tiles]: the tile at each place
// - counted [4]: first row of the counted places and their end; then 0 and INT32_MAX, a range that
//   includes every row
Step row_tiles(DType label_type, int64_t rows);

// Rows: rows of x. If an ignored row of x contains NaN or infinity, sets depth[0] to 2^30, which is
// beyond K. Matmuls with some_depth (kernels/matmul/matmul.h) then skip all of K, and the matmul
// with ignores_rows computes the result instead. Arguments: depth [2] i32, initially
// {0, INT32_MAX}, x [n, H] type, labels [n], and ignore_index i64.
Step check_ignored_rows(const Machine& machine, DType type, int64_t cols, DType label_type);

// Counted tiles, in consecutive places. Arguments: tile_at, counted.
class CountedTiles {
 public:
  CountedTiles(KernelBuilder& k, int64_t rows) : tile_at_(k.view("tile_at", i32, {dyn})) {
    const View counted = k.view("counted", i32, {4});
    const Scalar begin = counted.load({0});
    rows_ = (counted.load({1}) - begin).to(i64);
    first_ = begin / static_cast<int32_t>(rows);
  }
  const Scalar& rows() const { return rows_; }  // number of rows in counted tiles
  Scalar place(const Scalar& number) const { return first_ + number.to(i32); }
  Scalar tile(const Scalar& place) const { return tile_at_.load({place}); }

 private:
  View tile_at_;
  Scalar rows_, first_;
};

// Place of a tile, and whether it has a counted row.
struct RowTile {
  Scalar place, counts;

  RowTile(const View& places, const Scalar& tile) {
    const Scalar found = places.load({tile});
    counts = found >= 0;
    place = where(counts, found, -1 - found);
  }
};

// Place of a row. The rows of a tile keep their order.
struct RowOfTile {
  RowTile tile;
  Scalar place;

  RowOfTile(const View& places, const Scalar& row, int64_t rows)
      : tile(places, row / static_cast<int32_t>(rows)),
        place(tile.place * static_cast<int32_t>(rows) + row % static_cast<int32_t>(rows)) {}

  // Returns the number of blocks per row of `numbers`, or 0 if the tile has no counted row.
  Scalar blocks(KernelBuilder& k, const View& numbers, int64_t block) const {
    return where(tile.counts, cdiv(numbers.dim(1), block), k.constant(0, i64));
  }
};

}  // namespace ligerdsl::kernels
