// The tiles of a product of two matrices, and the sums of one of them.
#pragma once

#include <optional>

#include "kernels/core/column_blocks.h"
#include "kernels/matmul/matmul.h"

namespace ligerdsl::kernels {

inline LoopOptions options_of_turns(const MatmulMeta& m) {
  return {.num_stages = m.stages, .tensor_copies = m.tensor_copies};
}

// Sums of the turns [first, end) along k: of left(turn) [tile_m, tile_k] by right(turn) [tile_k, tile_n].
template <class Left, class Right>
Tile sums_of_turns(KernelBuilder& k, const MatmulMeta& m, const Scalar& first, const Scalar& end, Left left,
                   Right right) {
  auto [sums] = k.for_range(first, end, 1, options_of_turns(m), carry(k.zeros({m.tile_m, m.tile_n}, f32)),
                            [&](const Scalar& turn, const Tile& sums) {
                              const Tile of_left = left(turn), of_right = right(turn);
                              if (!m.turns_apart) return carry(dot(of_left, of_right, sums));
                              return carry(sums + dot(of_left, of_right, k.zeros({m.tile_m, m.tile_n}, f32)));
                            });
  return sums;
}

class ProductTiles {
 public:
  struct Place {
    Scalar row, column;            // of the tile in c
    std::optional<Scalar> matrix;  // of the batch, where there is one

    // In a view of such matrices: tile (i, j), and this one.
    Indices of(const Scalar& i, const Scalar& j) const { return matrix ? Indices{*matrix, i, j} : Indices{i, j}; }
    Indices itself() const { return of(row, column); }
  };

  // a and b lie as m.factors says; the product is rows x cols.
  ProductTiles(KernelBuilder& k, const MatmulMeta& m, const View& a, const View& b, const Scalar& rows,
               const Scalar& cols)
      : k_(k), m_(m), rows_(cdiv(rows, m.tile_m)), columns_(cdiv(cols, m.tile_n)) {
    const auto tiles = [&](const View& view, int64_t down, int64_t across) {
      return view.rank() == 3 ? view.partition({squeeze, down, across}) : view.partition({down, across});
    };
    if (m.in_blocks) blocks_.emplace(k);
    turns_ =
        m.in_blocks ? cdiv(b.dim(0), m.tile_k) : cdiv(a.dim((m.batch ? 1 : 0) + (m.transposed_a() ? 0 : 1)), m.tile_k);
    a_ = m.transposed_a() ? tiles(a, m.tile_k, m.tile_m) : tiles(a, m.tile_m, m.tile_k);
    b_ = m.transposed_b() ? tiles(b, m.tile_n, m.tile_k) : tiles(b, m.tile_k, m.tile_n);
    count_ = (rows_ * columns_).to(i32);
    if (m.batch) matrices_ = a.dim(0).to(i32);
  }

  // Of one matrix.
  const Scalar& count() const { return count_; }
  const Scalar& turns() const { return turns_; }  // along k
  Place at(const Scalar& number) const {
    const Scalar within = matrices_ ? number % count_ : number;
    const TilePlace tile = grouped_tiles(within, rows_, columns_, m_.group);
    Place place{tile.row, tile.column, {}};
    if (matrices_) place.matrix = number / count_;
    return place;
  }

  // The factors of one turn.
  Tile left(const Place& tile, const Scalar& turn) const {
    if (blocks_) return a_.load(blocks_->at(tile.row, turn, m_.tile_k));
    return m_.transposed_a() ? a_.load(tile.of(turn, tile.row)).permute({1, 0}) : a_.load(tile.of(tile.row, turn));
  }
  Tile right(const Place& tile, const Scalar& turn) const {
    return m_.transposed_b() ? b_.load(tile.of(tile.column, turn)).permute({1, 0})
                             : b_.load(tile.of(turn, tile.column));
  }

  Tile sums(const Place& tile) const { return sums(tile, k_.constant(0, i64), turns_); }
  // Sums of the turns [first, end).
  Tile sums(const Place& tile, const Scalar& first, const Scalar& end) const {
    return sums_of_turns(
        k_, m_, first, end, [&](const Scalar& turn) { return left(tile, turn); },
        [&](const Scalar& turn) { return right(tile, turn); });
  }

  // make(place) for every tile of this program.
  template <class Make>
  void each_place(Make make) const {
    const auto one = [&](const Scalar& number) { make(at(number)); };
    if (!m_.persistent) return one(k_.program_id(0));
    k_.for_range(k_.program_id(0), matrices_ ? count_ * *matrices_ : count_, k_.num_programs(0), one);
  }
  // make(place, sums).
  template <class Make>
  void each(Make make) const {
    each_place([&](const Place& tile) { make(tile, sums(tile)); });
  }

 private:
  KernelBuilder& k_;
  const MatmulMeta& m_;
  Scalar rows_, columns_, turns_, count_;
  std::optional<Scalar> matrices_;
  Partition a_, b_;
  std::optional<ColumnBlocks> blocks_;
};

}  // namespace ligerdsl::kernels
