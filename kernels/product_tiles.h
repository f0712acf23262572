// The tiles of a product of two matrices, and the sums of one of them.
#pragma once

#include "kernels/matmul.h"

namespace ligerdsl::kernels {

// Sums of the turns [first, end) along k: of left(turn) [tile_m, tile_k] by right(turn) [tile_k, tile_n].
template <class Left, class Right>
Tile sums_of_turns(KernelBuilder& k, const MatmulMeta& m, const Scalar& first, const Scalar& end, Left left,
                   Right right) {
  auto [sums] = k.for_range(first, end, 1, {.num_stages = m.stages, .tensor_copies = m.tensor_copies},
                            carry(k.zeros({m.tile_m, m.tile_n}, f32)), [&](const Scalar& turn, const Tile& sums) {
                              const Tile of_left = left(turn), of_right = right(turn);
                              if (!m.turns_apart) return carry(dot(of_left, of_right, sums));
                              return carry(sums + dot(of_left, of_right, k.zeros({m.tile_m, m.tile_n}, f32)));
                            });
  return sums;
}

class ProductTiles {
 public:
  // a and b lie as m.factors says; the product is rows x cols.
  ProductTiles(KernelBuilder& k, const MatmulMeta& m, const View& a, const View& b, const Scalar& rows,
               const Scalar& cols)
      : k_(k), m_(m), rows_(cdiv(rows, m.tile_m)), columns_(cdiv(cols, m.tile_n)) {
    turns_ = cdiv(a.dim(m.transposed_a() ? 0 : 1), m.tile_k);
    a_ = m.transposed_a() ? a.partition({m.tile_k, m.tile_m}) : a.partition({m.tile_m, m.tile_k});
    b_ = m.transposed_b() ? b.partition({m.tile_n, m.tile_k}) : b.partition({m.tile_k, m.tile_n});
    count_ = (rows_ * columns_).to(i32);
  }

  const Scalar& count() const { return count_; }
  const Scalar& turns() const { return turns_; }  // along k
  TilePlace at(const Scalar& number) const { return grouped_tiles(number, rows_, columns_, m_.group); }

  // Sums of the turns [first, end).
  Tile sums(const TilePlace& tile, const Scalar& first, const Scalar& end) const {
    return sums_of_turns(
        k_, m_, first, end,
        [&](const Scalar& i) {
          return m_.transposed_a() ? a_.load({i, tile.row}).permute({1, 0}) : a_.load({tile.row, i});
        },
        [&](const Scalar& i) {
          return m_.transposed_b() ? b_.load({tile.column, i}).permute({1, 0}) : b_.load({i, tile.column});
        });
  }

  // make(place, sums) for every tile of this program.
  template <class Make>
  void each(Make make) const {
    const auto one = [&](const Scalar& number) {
      const TilePlace tile = at(number);
      make(tile, sums(tile, k_.constant(0, i64), turns_));
    };
    if (!m_.persistent) return one(k_.program_id(0));
    k_.for_range(k_.program_id(0), count_, k_.num_programs(0), one);
  }

 private:
  KernelBuilder& k_;
  const MatmulMeta& m_;
  Scalar rows_, columns_, turns_, count_;
  Partition a_, b_;
};

}  // namespace ligerdsl::kernels
