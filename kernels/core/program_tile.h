// Tile of an elementwise kernel over rows. A program owns `rows` rows and `block` columns of every
// view. Consecutive programs own consecutive blocks of columns (elementwise_launch).
#pragma once

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

class ProgramTile {
 public:
  // load() and store() accept views of the width of `view`. `m` has the tile's `rows` and `block`.
  template <class Meta>
  ProgramTile(KernelBuilder& k, const View& view, const Meta& m) : rows_(m.rows), block_(m.block) {
    Scalar blocks = cdiv(view.dim(1), m.block).to(i32);
    row_ = k.program_id(0) / blocks;
    column_ = k.program_id(0) % blocks;
  }
  const Scalar& row() const { return row_; }
  const Scalar& column() const { return column_; }
  Tile load(const View& view) const {
    return view.partition({rows_, block_}).load({row_, column_}).to(f32);
  }
  // Stores `value`, rounded to the view's type.
  void store(const View& view, const Tile& value) const {
    view.partition({rows_, block_}).store({row_, column_}, value.to(view.dtype()));
  }

 private:
  int64_t rows_, block_;
  Scalar row_, column_;
};

}  // namespace ligerdsl::kernels
