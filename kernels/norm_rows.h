// Rows of a 2-D view cut into a norm's tiles, read as f32. What is recorded has the line of the kernel that asks.
#pragma once

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct NormRows {
  Partition tiles;

  // Of m.rows rows and m.block columns.
  template <class Meta>
  NormRows(const View& view, const Meta& m) : tiles(view.partition({m.rows, m.block})) {}

  Tile load(const Scalar& row, ScalarArg column, Loc loc = Here::current()) const {
    return tiles.load({row, column}, {}, loc).to(f32, loc);
  }
  // One row, to be read twice.
  Resident keep(const Scalar& row, Loc loc = Here::current()) const {
    assume(row < tiles.view().dim(0), loc);  // a program for each row
    return tiles.resident({row}, {}, loc);
  }
  void store(const Scalar& row, ScalarArg column, const Tile& value, Loc loc = Here::current()) const {
    tiles.store({row, column}, value.to(tiles.view().dtype(), loc), {}, loc);
  }
};

}  // namespace ligerdsl::kernels
