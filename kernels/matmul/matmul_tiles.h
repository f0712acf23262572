// Tiles of a matmul, and the accumulator of one tile.
#pragma once

#include <optional>

#include "kernels/core/column_blocks.h"
#include "kernels/matmul/matmul.h"

namespace ligerdsl::kernels {

inline LoopOptions k_loop_options(const MatmulMeta& m) {
  return {.num_stages = m.stages, .tensor_copies = m.tensor_copies};
}

// Returns the sum of left(k_step) [tile_m, tile_k] times right(k_step) [tile_k, tile_n] over the
// k-steps [first, end).
template <class Left, class Right>
Tile accumulate_k_steps(KernelBuilder& k, const MatmulMeta& m, const Scalar& first,
                        const Scalar& end, Left left, Right right) {
  auto [acc] =
      k.for_range(first, end, 1, k_loop_options(m), carry(k.zeros({m.tile_m, m.tile_n}, f32)),
                  [&](const Scalar& k_step, const Tile& acc) {
                    const Tile of_left = left(k_step), of_right = right(k_step);
                    if (!m.two_level_accumulation) return carry(dot(of_left, of_right, acc));
                    return carry(acc + dot(of_left, of_right, k.zeros({m.tile_m, m.tile_n}, f32)));
                  });
  return acc;
}

class MatmulTiles {
 public:
  struct Place {
    Scalar row, column;            // position of the tile in c
    std::optional<Scalar> matrix;  // index in the batch, empty without a batch

    // `of` returns the indices of tile (i, j) in the same matrix, `itself` those of this tile.
    Indices of(const Scalar& i, const Scalar& j) const {
      return matrix ? Indices{*matrix, i, j} : Indices{i, j};
    }
    Indices itself() const { return of(row, column); }
  };

  // `m` says which of a and b are transposed; c is [rows, cols].
  MatmulTiles(KernelBuilder& k, const MatmulMeta& m, const View& a, const View& b,
              const Scalar& rows, const Scalar& cols)
      : k_(k), m_(m), rows_(cdiv(rows, m.tile_m)), columns_(cdiv(cols, m.tile_n)) {
    const auto tiles = [&](const View& view, int64_t down, int64_t across) {
      return view.rank() == 3 ? view.partition({squeeze, down, across})
                              : view.partition({down, across});
    };
    if (m.in_blocks) blocks_.emplace(k);
    k_steps_ = m.in_blocks ? cdiv(b.dim(0), m.tile_k)
                           : cdiv(a.dim((m.batch ? 1 : 0) + (m.transposed_a() ? 0 : 1)), m.tile_k);
    a_ = m.transposed_a() ? tiles(a, m.tile_k, m.tile_m) : tiles(a, m.tile_m, m.tile_k);
    b_ = m.transposed_b() ? tiles(b, m.tile_n, m.tile_k) : tiles(b, m.tile_k, m.tile_n);
    count_ = (rows_ * columns_).to(i32);
    if (m.batch) matrices_ = a.dim(0).to(i32);
  }

  // Number of tiles of one matrix c.
  const Scalar& count() const { return count_; }
  const Scalar& k_steps() const { return k_steps_; }  // along k
  Place at(const Scalar& number) const {
    const Scalar within = matrices_ ? number % count_ : number;
    const TilePlace tile = grouped_tiles(within, rows_, columns_, m_.group);
    Place place{tile.row, tile.column, {}};
    if (matrices_) place.matrix = number / count_;
    return place;
  }

  // Operands of one k-step.
  Tile left(const Place& tile, const Scalar& k_step) const {
    if (blocks_) return a_.load(blocks_->at(tile.row, k_step, m_.tile_k));
    return m_.transposed_a() ? a_.load(tile.of(k_step, tile.row)).permute({1, 0})
                             : a_.load(tile.of(tile.row, k_step));
  }
  Tile right(const Place& tile, const Scalar& k_step) const {
    return m_.transposed_b() ? b_.load(tile.of(tile.column, k_step)).permute({1, 0})
                             : b_.load(tile.of(k_step, tile.column));
  }

  Tile accumulate(const Place& tile) const {
    return accumulate(tile, k_.constant(0, i64), k_steps_);
  }
  // Returns the accumulator over the k-steps [first, end).
  Tile accumulate(const Place& tile, const Scalar& first, const Scalar& end) const {
    return accumulate_k_steps(
        k_, m_, first, end, [&](const Scalar& k_step) { return left(tile, k_step); },
        [&](const Scalar& k_step) { return right(tile, k_step); });
  }

  // Runs make(place) for each tile of this program.
  template <class Make>
  void each_place(Make make) const {
    const auto one = [&](const Scalar& number) { make(at(number)); };
    if (!m_.persistent) return one(k_.program_id(0));
    k_.for_range(k_.program_id(0), matrices_ ? count_ * *matrices_ : count_, k_.num_programs(0),
                 one);
  }
  // Runs make(place, accumulator) for each tile of this program.
  template <class Make>
  void each(Make make) const {
    each_place([&](const Place& tile) { make(tile, accumulate(tile)); });
  }

 private:
  KernelBuilder& k_;
  const MatmulMeta& m_;
  Scalar rows_, columns_, k_steps_, count_;
  std::optional<Scalar> matrices_;
  Partition a_, b_;
  std::optional<ColumnBlocks> blocks_;
};

}  // namespace ligerdsl::kernels
