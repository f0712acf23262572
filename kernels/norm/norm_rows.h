// Rows of a 2-D view, partitioned into the tiles of a norm and loaded as f32. Recorded ops have the
// source line of the calling kernel.
#pragma once

#include <optional>
#include <utility>

#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct NormRows {
  Partition tiles;

  // Tiles have m.rows rows and m.block columns.
  template <class Meta>
  NormRows(const View& view, const Meta& m) : tiles(view.partition({m.rows, m.block})) {}

  Tile load(const Scalar& row, ScalarArg column, Loc loc = Here::current()) const {
    return tiles.load({row, column}, {}, loc).to(f32, loc);
  }
  // Returns one row as a resident row, because it is read twice.
  Resident keep(const Scalar& row, Loc loc = Here::current()) const {
    assume(row < tiles.view().dim(0), loc);  // a program for each row
    return tiles.resident({row}, {}, loc);
  }
  void store(const Scalar& row, ScalarArg column, const Tile& value,
             Loc loc = Here::current()) const {
    tiles.store({row, column}, value.to(tiles.view().dtype(), loc), {}, loc);
  }
};

// Input of a norm: rows of x, or round(x + residual).
class NormInput {
 public:
  NormInput(NormRows x, std::optional<NormRows> residual)
      : x_(std::move(x)), residual_(std::move(residual)) {}

  View view() const { return x_.tiles.view(); }
  Scalar cols() const { return view().dim(1); }

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

// Gradient of a norm's input. d_sum, if there is one, is added: the gradient of other uses of the
// sum.
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
