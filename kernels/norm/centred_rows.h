// Rows relative to their mean, n = (x - mean) rstd. LayerNorm and GroupNorm share this code.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/norm/layer_norm.h"
#include "kernels/norm/moments.h"
#include "kernels/norm/norm_rows.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

// Formulas of the backward pass for some rows, given their statistics as [rows, 1]. For 16-bit x, n
// = x rstd - mean rstd is one fma. Rounding mean rstd adds no larger an error than rounding mean.
struct NormalisedRows {
  bool folded;
  Tile mean, rstd, shift;
  NormalisedRows(DType type, const Tile& mean, const Tile& rstd)
      : folded(type != f32), mean(mean), rstd(rstd), shift(-(mean * rstd)) {}

  // n
  Tile operator()(const Tile& x) const { return folded ? fma(x, rstd, shift) : (x - mean) * rstd; }

  // Returns dx, given x, q = dy weight, mean(n q) and mean(q). It uses x instead of n, so that n
  // need not stay in registers until the means are known.
  Tile gradient(const Tile& x, const Tile& q, const Tile& mean_nq, const Tile& mean_q) const {
    const Tile slope = -(rstd * mean_nq), level = -(rstd * mean_q);
    return folded ? fma(x, slope * rstd, fma(q, rstd, fma(shift, slope, level)))
                  : fma((*this)(x), slope, fma(q, rstd, level));
  }
};

// Parameter gradients that the caller wants: d_weight, d_bias, or both, in this order.
struct ParameterGradients {
  bool weight, bias;
  explicit ParameterGradients(LayerNormGradients which)
      : weight(which != LayerNormGradients::bias), bias(which != LayerNormGradients::weight) {}

  // Returns one view of partial sums per wanted gradient. `view(name)` declares a view.
  template <class DeclareView>
  std::vector<View> partials(const DeclareView& view) const {
    std::vector<View> views;
    if (weight) views.push_back(view("weight_partials"));
    if (bias) views.push_back(view("bias_partials"));
    return views;
  }

  // Returns `sums` plus some rows' contributions: dy * n for the weight, dy for the bias.
  std::vector<Tile> plus(const std::vector<Tile>& sums, const Tile& dy, const Tile& n) const {
    std::vector<Tile> more = sums;
    if (bias) more.back() = sums.back() + dy;
    if (weight) more.front() = fma(dy, n, sums.front());
    return more;
  }
  // Returns `sums` plus contributions that are already summed.
  std::vector<Tile> plus_sums(const std::vector<Tile>& sums, const Tile& sum_dy,
                              const Tile& sum_dy_n) const {
    std::vector<Tile> more = sums;
    if (bias) more.back() = sums.back() + sum_dy;
    if (weight) more.front() = sums.front() + sum_dy_n;
    return more;
  }
};

// Runs a loop that carries one or two accumulators, and returns them.
template <class Body>
std::vector<Tile> sums_over(KernelBuilder& k, ScalarArg first, ScalarArg end, ScalarArg step,
                            const LoopOptions& options, const Tile& zeros, size_t count,
                            const Body& body) {
  if (count == 1) {
    auto [sum] = k.for_range(first, end, step, options, carry(zeros), [&](Scalar i, Tile sum) {
      return carry(body(i, std::vector{sum})[0]);
    });
    return {sum};
  }
  auto [a, b] =
      k.for_range(first, end, step, options, carry(zeros, zeros), [&](Scalar i, Tile a, Tile b) {
        const std::vector<Tile> sums = body(i, std::vector{a, b});
        return carry(sums[0], sums[1]);
      });
  return {a, b};
}

// Rows that a program of the forward pass normalises, whole or in blocks that are read twice.
//
// `Meta` has cols (of a row), rows and block (of a tile), lanes (distribution of a tile's row),
// looped (rows in blocks) and type. Input has the members of NormInput (norm_rows.h) used here.
template <class Meta, class Input>
class CentredRows {
 public:
  CentredRows(KernelBuilder& k, const Meta& m, const Input& input, const Scalar& row)
      : k_(k), m_(m), input_(input), row_(row), cols_(input.cols()) {
    if (m.looped)
      kept_ = input.keep(row);
    else
      whole_ = input.load(row, 0);
  }

  Scalar blocks() const { return input_.blocks(m_.block); }
  Tile block(const Scalar& b) const { return m_.looped ? kept_.load(b) : whole_; }

  // Statistics, [rows]. `mean` is the result to store; deviations of f32 x use shift + low.
  struct Centre {
    Tile mean, shift, low, rstd;
  };

  // Computes n of a block with one fma. If x is f32, the shift is subtracted from x first, to keep
  // digits.
  class Normalised {
   public:
    Normalised(const Meta& m, const Centre& c)
        : shifted_(m.type == f32),
          from_(c.shift.expand_dims(1)),
          scale_(c.rstd.expand_dims(1)),
          offset_((-((shifted_ ? c.low : c.mean) * c.rstd)).expand_dims(1)) {}
    Tile operator()(const Tile& block) const {
      return fma(shifted_ ? block - from_ : block, scale_, offset_);
    }

   private:
    bool shifted_;
    Tile from_, scale_, offset_;
  };

  // Statistics of each row, [rows]: `total` is the sum of x, `low` the mean of x - shift, and
  // `squares` the sum of the squared deviations from the mean.
  struct Moments {
    Tile total, shift, low, squares;
  };
  Moments moments() const {
    const std::vector<Tile> samples = this->samples();
    const auto [lanes, shift] =
        m_.type == f32 ? sums_from(shift_of(samples)) : sums_of_short(samples);
    Tile total = sum(lanes.total, 1), away = sum(lanes.first, 1), squares = sum(lanes.second, 1);
    Tile low = away * (1.0 / m_.cols), m2 = max(fma(-low, away, squares), 0.0f);
    return {total, shift, low, m2};
  }
  Centre centre(const Scalar& eps) const {
    const auto [total, shift, low, m2] = moments();
    return {total * (1.0 / m_.cols), shift, low, rsqrt(m2 * (1.0 / m_.cols) + eps)};
  }

 private:
  LaneBlock lane_block(const Scalar& b) const {
    Tile inside;
    if (const Scalar offset = input_.alignment_offset(); !offset.empty()) {
      const Tile column = k_.arange(m_.block) + ((b * m_.block).to(i32) - offset);
      inside = (column >= 0 && column < cols_.to(i32)).expand_dims(0);
    } else if (m_.cols % m_.block != 0)
      inside = (k_.arange(m_.block) < (cols_ - b * m_.block).to(i32)).expand_dims(0);
    return LaneBlock(k_, block(b), inside, m_.lanes);
  }
  Tile zeros() const { return k_.zeros({m_.rows, m_.lanes.lanes * m_.lanes.ctas}, f32); }

  // Returns samples of a long row, in tiles that one warp can sum. These tiles are spread evenly
  // over the row. Returns none if a tile has several rows.
  std::vector<Tile> samples() const {
    if (m_.rows > 1) return {};
    const int64_t width = shift_width(m_.cols), part = std::min<int64_t>(width, 32),
                  parts = width / part;
    std::vector<Tile> samples;
    for (int64_t i = 0; i < parts; ++i)
      samples.push_back(input_.sample(row_, i * (m_.cols / part) / parts, part));
    return samples;
  }
  // Returns the mean of the samples, [1]. With several short rows per tile, returns the mean of
  // each whole row, [rows].
  Tile shift_of(const std::vector<Tile>& samples) const {
    if (m_.rows > 1) return sum(whole_, 1) * (1.0 / m_.cols);
    Tile total = samples[0];
    for (size_t i = 1; i < samples.size(); ++i) total = total + samples[i];
    return sum(total, 1) * (1.0 / shift_width(m_.cols));
  }

  // Partial sums of a row, relative to `shift`.
  struct Sums {
    ShiftedSums lanes;
    Tile shift;
  };
  Sums sums_from(const Tile& shift) const {
    const Tile from = shift.expand_dims(1);
    if (!m_.looped) return {lane_sums(lane_block(k_.constant(0, i64)), from), shift};
    auto [total, first, second] =
        k_.for_range(0, blocks(), 1, carry(zeros(), zeros(), zeros()),
                     [&](Scalar b, Tile total, Tile first, Tile second) {
                       const ShiftedSums more = lane_sums(lane_block(b), from);
                       return carry(total + more.total, first + more.first, second + more.second);
                     });
    return {{total, first, second}, shift};
  }
  // Returns the partial sums of 16-bit elements. The samples are used last, so that nothing waits
  // for their loads.
  Sums sums_of_short(const std::vector<Tile>& samples) const {
    const LaneSums lanes =
        m_.looped ? looped_sums() : LaneSums::of(lane_block(k_.constant(0, i64)));
    const Tile shift = shift_of(samples);
    return {lanes.relative_to(shift.expand_dims(1)), shift};
  }
  LaneSums looped_sums() const {
    auto [count, shift, total, first, second] = k_.for_range(
        0, blocks(), 1, carry(zeros(), zeros(), zeros(), zeros(), zeros()),
        [&](Scalar b, Tile count, Tile shift, Tile total, Tile first, Tile second) {
          const LaneSums block = LaneSums::of(lane_block(b));
          const LaneSums all =
              LaneSums{count, where(b == 0, block.shift, shift), {total, first, second}}.plus(
                  block);
          return carry(all.count, all.shift, all.sums.total, all.sums.first, all.sums.second);
        });
    return {count, shift, {total, first, second}};
  }

  KernelBuilder& k_;
  const Meta& m_;
  const Input& input_;
  Scalar row_, cols_;
  typename Input::Kept kept_;
  Tile whole_;
};

}  // namespace ligerdsl::kernels
