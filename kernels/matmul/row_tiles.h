// Which tiles of rows have a row that counts, so that products leave the others out.
//
// What is made of tiles of rows stands in memory of as many rows, those of the tiles that count together: at the end, so that a
// last tile of fewer rows stays where it is. The others have the places in front, at which nothing of a product is read or written.
#pragma once

#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Rows: tiles of `rows` rows. Arguments, i32: places [tiles] (out): a tile's place, or -1 less it where no row counts; tile_at [tiles] (out):
// the tile of each place; counted [4] (out): the first row of the places that count and their end, then 0 and the largest number, which leave
// out nothing; labels [n];
// ignore_index i64: the label of rows that do not count.
Step row_tiles(DType label_type, int64_t rows);

// Rows: rows of x. Leaves out all of K (kernels/matmul/matmul.h: some_depth) if an ignored row of x holds something else than
// finite numbers, for then ignores_rows multiplies. Arguments: depth [2] i32, from {0, the largest number}; x [n, H] type; labels
// [n]; ignore_index i64.
Step check_ignored_rows(const Machine& machine, DType type, int64_t cols, DType label_type);

// The tiles that count, one behind the other.
// Arguments: tile_at, counted.
class CountedTiles {
 public:
  CountedTiles(KernelBuilder& k, int64_t rows) : tile_at_(k.view("tile_at", i32, {dyn})) {
    const View counted = k.view("counted", i32, {4});
    const Scalar begin = counted.load({0});
    rows_ = (counted.load({1}) - begin).to(i64);
    first_ = begin / static_cast<int32_t>(rows);
  }
  const Scalar& rows() const { return rows_; }  // in all of them
  Scalar place(const Scalar& number) const { return first_ + number.to(i32); }
  Scalar tile(const Scalar& place) const { return tile_at_.load({place}); }

 private:
  View tile_at_;
  Scalar rows_, first_;
};

// What stands at a tile's place.
struct RowTile {
  Scalar place, counts;

  RowTile(const View& places, const Scalar& tile) {
    const Scalar found = places.load({tile});
    counts = found >= 0;
    place = where(counts, found, -1 - found);
  }
};

// A row among those of its tile.
struct RowOfTile {
  RowTile tile;
  Scalar place;

  RowOfTile(const View& places, const Scalar& row, int64_t rows)
      : tile(places, row / static_cast<int32_t>(rows)),
        place(tile.place * static_cast<int32_t>(rows) + row % static_cast<int32_t>(rows)) {}

  // Of a row of numbers, so many at a time; none where no row of the tile counts.
  Scalar blocks(KernelBuilder& k, const View& numbers, int64_t block) const {
    return where(tile.counts, cdiv(numbers.dim(1), block), k.constant(0, i64));
  }
};

}  // namespace ligerdsl::kernels
