// Row of logits in blocks, for cross-entropy kernels of whole rows, and the row sums of one pass.
#pragma once

#include <string>

#include "kernels/core/softcap.h"
#include "kernels/cross_entropy/cross_entropy.h"

namespace ligerdsl::kernels {

// Tensors and scalars that the options select.
struct CrossEntropyArguments {
  View loss, z_loss, accuracy, entropy, lse, predictions, d_logits, logits, labels, bias, weight,
      d_loss, d_entropy, counts, error;
  Scalar ignore_index, first_row, label_smoothing, lse_square_scale, softcap, temperature;

  CrossEntropyArguments() = default;
  CrossEntropyArguments(KernelBuilder& k, const CrossEntropyMeta& m);
};

// Runs body(row, label) for each row of a program: one row, or several in order with several_rows.
// Labels are i64.
template <class Body>
void for_each_row(KernelBuilder& k, const CrossEntropyMeta& m, const View& labels,
                  const Body& body) {
  const Scalar first = k.program_id(0);
  const auto label_of = [&](const Scalar& row) { return labels.load({row}).to(i64); };
  if (!m.several_rows) return body(first, label_of(first));
  // Loads the next row's label while this row is computed.
  const Scalar programs = k.num_programs(0).to(i64);
  k.for_range(first.to(i64), labels.dim(0), programs, carry(label_of(first)),
              [&](Scalar row, Scalar label) {
                const Scalar next = label_of(row + programs);
                body(row, label);
                return carry(next);
              });
}

// Sums over a row (T = Scalar), or over each row of a tile (T = Tile [rows]). Powers are 2^u with
// u = z log2(e) - base.
template <class T>
struct CrossEntropySums {
  T base;  // the maximum, times log2(e)
  // Sum of the powers except the label's. Only this sum keeps the digits of 1 - p_y as p_y
  // approaches 1.
  T others;
  T deviation;  // smoothing: sum of [w_c] (z_c - reference)
  T moment;     // entropy: sum of u 2^u, without the label's term
  T best;       // accuracy, predictions: lowest index of the largest z, i32
  T label;      // z of the label, if the pass finds it (CrossEntropyRow::finds_label)
};
using CrossEntropyRowSums = CrossEntropySums<Scalar>;

// Returns u = z log2(e) - base. u is 0 or less. For such u the approximate exponential 2^u is
// accurate, except that it flushes results below 2^-126 to 0.
Tile base_2(const Tile& z, TileArg minus_base);
// Replaces u = -inf by a finite number, so that u * 2^u is 0.
Tile finite_exponent(const Tile& u);
Scalar finite_exponent(const Scalar& u);

// Reads a row in blocks. With aligned_blocks the first block begins `offset_` columns before it.
class CrossEntropyRow {
 public:
  using Arguments = CrossEntropyArguments;
  using Sums = CrossEntropyRowSums;

  CrossEntropyRow(KernelBuilder& k, const CrossEntropyMeta& m, const Arguments& args,
                  const Scalar& row);

  const Scalar& classes() const { return classes_; }
  Scalar blocks() const { return logits_.blocks(); }
  Scalar first_column(const Scalar& b) const { return b * m_.block - offset_number_; }
  Scalar block_of(const Scalar& column) const {
    return (column.to(i32) + offset_number_) / m_.block;
  }
  Tile columns(const Scalar& b) const {
    return (first_column(b) + k_.arange(m_.block)).reshape(shape_);
  }

  // Returns z of a block; -inf outside the row.
  Tile load(const Scalar& b) const;
  Scalar load_one(const Scalar& column) const;
  Tile weights(const Scalar& b) const { return along_row(args_.weight, b); }
  // Returns the derivative of the softcap at the logit whose result is z.
  Tile cap_slope(const Tile& z) const {
    return softcap_.slope(m_.tempered ? z * args_.temperature : z);
  }
  const Scalar& rate() const { return rate_; }  // 1 / temperature; empty without temperature
  void store_gradient(const Scalar& b, TileArg d) const {
    args_.d_logits.partition({squeeze, m_.block})
        .store({row_, b}, d, {.alignment_offset = offset_});
  }
  void store_gradient(const Scalar& b, const Tile& d) const {
    store_gradient(b, TileArg(d.to(m_.type).reshape({m_.block})));
  }

  // Returns true if the first pass finds the label's z, because the CTAs of a cluster share the
  // row. If one CTA loaded z by index instead, the other CTAs would have to wait for this load
  // before they overwrite the row in place. With smoothing the pass itself needs z, as a reference.
  bool finds_label() const { return m_.lanes.ctas > 1 && !m_.smoothing; }

  // Returns `t` with `other` at the label's column. Only the label's block compares columns.
  Tile at_label(const Scalar& b, const Scalar& label, const TileArg& other, const Tile& t) const;

  // Return the row sums. `sums` takes a row that is one block `z`; `looped_sums` makes one pass
  // over the row's blocks. The field `deviation` is the sum of z - reference.
  Sums sums(const Tile& z, const Scalar& label, const Scalar& reference) const;
  Sums looped_sums(const Scalar& label, const Scalar& reference) const;

 private:
  bool wants_best() const { return m_.with_accuracy || m_.with_predictions; }
  // Returns the terms of `deviation` in a block.
  Tile deviations(const Tile& z, const Scalar& reference, const Scalar& b) const;
  Tile along_row(const View& view, const Scalar& b) const {
    return view.partition({m_.block})
        .load({b}, {.alignment_offset = offset_})
        .to(f32)
        .reshape(shape_);
  }
  // Returns `t` with `otherwise` outside the row. Only the last block and, with an alignment
  // offset, the first block have such columns.
  Tile where_inside(const Scalar& b, const Tile& t, double otherwise) const;

  KernelBuilder& k_;
  const CrossEntropyMeta& m_;
  const Arguments& args_;
  Scalar row_, classes_;
  Softcap softcap_;
  Scalar rate_;    // 1 / temperature
  Scalar offset_;  // columns of the first block before the row; empty if tiles have no room for it
  Scalar offset_number_;  // offset_, or 0
  Resident logits_;
  Shape shape_;
};

// Stores the results of a row without a valid label, and returns the fill value: 0 for
// ignore_index, NaN for any other label. An accuracy is always 0, and a prediction -1. The error
// flag records rows with NaN. `row` is needed only with a gradient.
Scalar fill_row(KernelBuilder& k, const CrossEntropyMeta& m, const CrossEntropyArguments& args,
                const CrossEntropyRow* row, const Scalar& index, const Scalar& ignored);

}  // namespace ligerdsl::kernels
