// Rows of a 2-D view, partitioned into the tiles of a norm and loaded as f32. Recorded ops have the
// source line of the calling kernel.
#pragma once

#include <optional>
#include <utility>

#include "kernels/core/workspace.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct NormRows {
  Partition tiles;
  Scalar alignment_offset;  // elements from the beginning of a tile to that of its row; empty: 0

  // Tiles have m.rows rows and m.block columns.
  template <class Meta>
  NormRows(const View& view, const Meta& m, Scalar alignment_offset = {})
      : tiles(view.partition({m.rows, m.block})), alignment_offset(std::move(alignment_offset)) {}

  Tile load(const Scalar& row, ScalarArg column, Loc loc = Here::current()) const {
    return tiles.load({row, column}, {.alignment_offset = alignment_offset}, loc).to(f32, loc);
  }
  // Returns one row as a resident row, because it is read twice.
  Resident keep(const Scalar& row, Loc loc = Here::current()) const {
    assume(row < tiles.view().dim(0), loc);  // one program per row
    return tiles.resident({row}, {.alignment_offset = alignment_offset}, loc);
  }
  void store(const Scalar& row, ScalarArg column, const Tile& value,
             Loc loc = Here::current()) const {
    tiles.store({row, column}, value.to(tiles.view().dtype(), loc),
                {.alignment_offset = alignment_offset}, loc);
  }
};

// Returns the view of a backward's partial sums. With alignment offsets, its strides are constants
// (those of the workspace), so the contiguous variant need not check them.
template <class Meta>
View partials_view(KernelBuilder& k, const Meta& m, const std::string& name) {
  if (!m.aligned_blocks) return k.view(name, f32, {dyn, m.cols});
  const int64_t sizes[] = {1, m.cols};
  int64_t strides[2];
  workspace_strides(f32, sizes, strides);
  return k.view(name, f32, {dyn, m.cols}, {.strides = {strides[0], strides[1]}});
}

// Returns the number of programs of a kernel that loops over rows, a multiple of m.row_period.
template <class Meta>
Scalar programs_of(KernelBuilder& k, const Meta& m) {
  const Scalar programs = k.num_programs(0);
  return m.row_period > 1 ? assume_divisible(programs, m.row_period) : programs;
}

// Input of a norm: rows of x, or round(x + residual).
class NormInput {
 public:
  NormInput(NormRows x, std::optional<NormRows> residual)
      : x_(std::move(x)), residual_(std::move(residual)) {}

  View view() const { return x_.tiles.view(); }
  Scalar cols() const { return view().dim(1); }
  // Returns the number of blocks of `block` columns.
  Scalar blocks(int64_t block) const {
    if (x_.alignment_offset.empty()) return cdiv(cols(), block);
    return cdiv(cols() + view().max_alignment_offset().to(i64), block);
  }
  const Scalar& alignment_offset() const { return x_.alignment_offset; }

  Tile load(const Scalar& row, ScalarArg column, Loc loc = Here::current()) const {
    const Tile added = residual_ ? residual_->load(row, column, loc) : Tile();
    return sum(x_.load(row, column, loc), added, loc);
  }

  // One resident row of the input.
  class Kept {
   public:
    Tile load(const Scalar& block, Loc loc = Here::current()) const {
      const Tile added = of_->residual_ ? residual_.load(block, loc).to(f32, loc) : Tile();
      return of_->sum(x_.load(block, loc).to(f32, loc), added, loc);
    }

   private:
    friend NormInput;
    const NormInput* of_ = nullptr;
    Resident x_, residual_;
  };
  Kept keep(const Scalar& row, Loc loc = Here::current()) const {
    Kept kept;
    kept.of_ = this;
    kept.x_ = x_.keep(row, loc);
    if (residual_) kept.residual_ = residual_->keep(row, loc);
    return kept;
  }

  // Returns `part` contiguous elements of one row as [1, part].
  Tile sample(const Scalar& row, ScalarArg first, int64_t part, Loc loc = Here::current()) const {
    const auto at = [&](const NormRows& rows) {
      return rows.tiles.view().partition({1, part}, loc).load({row, first}, {}, loc).to(f32, loc);
    };
    const Tile added = residual_ ? at(*residual_) : Tile();
    return sum(at(x_), added, loc);
  }

 private:
  Tile sum(const Tile& x, const Tile& added, Loc loc) const {
    if (added.empty()) return x;
    return (At<Tile>(x, loc) + added).to(x_.tiles.view().dtype(), loc).to(f32, loc);
  }

  NormRows x_;
  std::optional<NormRows> residual_;
};

// Gradient of a norm's input. If the sum of x and residual has other uses, store() adds their
// gradient d_sum.
struct NormGradient {
  NormRows d_x;
  std::optional<NormRows> d_sum;

  void store(const Scalar& row, ScalarArg column, const Tile& value,
             Loc loc = Here::current()) const {
    d_x.store(row, column, d_sum ? At<Tile>(value, loc) + d_sum->load(row, column, loc) : value,
              loc);
  }
};

}  // namespace ligerdsl::kernels
