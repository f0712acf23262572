// A row of logits in blocks, as every kernel of cross-entropy reads it, and what a pass over it finds out.
#pragma once

#include <string>

#include "kernels/core/softcap.h"
#include "kernels/cross_entropy/cross_entropy.h"

namespace ligerdsl::kernels {

// The tensors and numbers that the options ask for.
struct CrossEntropyArguments {
  View loss, z_loss, accuracy, entropy, lse, predictions, d_logits, logits, labels, bias, weight, d_loss, d_entropy,
      counts, error;
  Scalar ignore_index, first_row, label_smoothing, lse_square_scale, softcap, temperature;

  CrossEntropyArguments() = default;
  CrossEntropyArguments(KernelBuilder& k, const CrossEntropyMeta& m);
};

// Runs body(row, label) for the rows of a program: its own row, or with several_rows one after the other. Labels are i64.
template <class Body>
void for_each_row(KernelBuilder& k, const CrossEntropyMeta& m, const View& labels, const Body& body) {
  const Scalar first = k.program_id(0);
  const auto label_of = [&](const Scalar& row) { return labels.load({row}).to(i64); };
  if (!m.several_rows) return body(first, label_of(first));
  // The next row's label arrives while this row is computed.
  const Scalar programs = k.num_programs(0).to(i64);
  k.for_range(first.to(i64), labels.dim(0), programs, carry(label_of(first)), [&](Scalar row, Scalar label) {
    const Scalar next = label_of(row + programs);
    body(row, label);
    return carry(next);
  });
}

// Base 2: an element is the power 2^u with u = z log2(e) - base.
struct CrossEntropyRowSums {
  Scalar base;       // the maximum, in base 2
  Scalar others;     // sum of the powers without the label's: as p_y nears 1, 1 - p_y keeps its digits only here
  Scalar deviation;  // smoothing: sum of [w_c] (z_c - reference)
  Scalar moment;     // entropy: sum of u 2^u, without the label's
  Scalar best;       // accuracy, predictions: lowest index of the largest z, i32
  Scalar label;      // z of the label, where it was not loaded (CrossEntropyRow::finds_label)
};

// Exponents of 0 or less: the approximate exponential is as good, but for what it flushes to 0 below 2^-126.
Tile base_2(const Tile& z, TileArg minus_base);
// u of what is 2^u: where that is 0, a number, so that their product is 0.
Tile finite_exponent(const Tile& u);
Scalar finite_exponent(const Scalar& u);

// The first block begins `alignment_offset` columns early.
class CrossEntropyRow {
 public:
  using Arguments = CrossEntropyArguments;
  using Sums = CrossEntropyRowSums;

  CrossEntropyRow(KernelBuilder& k, const CrossEntropyMeta& m, const Arguments& args, const Scalar& row);

  const Scalar& classes() const { return classes_; }
  Scalar blocks() const { return logits_.blocks(); }
  Scalar first_column(const Scalar& b) const { return b * m_.block - offset_number_; }
  Scalar block_of(const Scalar& column) const { return (column.to(i32) + offset_number_) / m_.block; }
  Tile columns(const Scalar& b) const { return (first_column(b) + k_.arange(m_.block)).reshape(shape_); }

  // z of a block; -inf beyond the row.
  Tile load(const Scalar& b) const;
  Scalar load_one(const Scalar& column) const;
  Tile weights(const Scalar& b) const { return along_row(args_.weight, b); }
  // What the softcap multiplies gradients with, given its z.
  Tile cap_slope(const Tile& z) const { return softcap_.slope(m_.tempered ? z * args_.temperature : z); }
  const Scalar& rate() const { return rate_; }  // dz/dx apart from the softcap, where there is a temperature
  void store_gradient(const Scalar& b, TileArg d) const {
    args_.d_logits.partition({squeeze, m_.block}).store({row_, b}, d, {.alignment_offset = offset_});
  }
  void store_gradient(const Scalar& b, const Tile& d) const {
    store_gradient(b, TileArg(d.to(m_.type).reshape({m_.block})));
  }

  // Whether the first pass finds the label's z. If CTAs share a row in place, one that loaded it would have to meet the
  // others before they overwrite it.
  bool finds_label() const { return m_.lanes.ctas > 1 && !m_.smoothing; }

  // `t`, but `other` where the label is. Only one block of a row looks for it.
  Tile at_label(const Scalar& b, const Scalar& label, const TileArg& other, const Tile& t) const;

  // One pass over the row, or over `z` where the row is one block. `reference` is what deviations are relative to.
  Sums sums(const Tile& z, const Scalar& label, const Scalar& reference) const;
  Sums looped_sums(const Scalar& label, const Scalar& reference) const;

 private:
  bool wants_best() const { return m_.with_accuracy || m_.with_predictions; }
  // The part of `deviation` in a block.
  Tile deviations(const Tile& z, const Scalar& reference, const Scalar& b) const;
  Tile along_row(const View& view, const Scalar& b) const {
    return view.partition({m_.block}).load({b}, {.alignment_offset = offset_}).to(f32).reshape(shape_);
  }
  // Only the first and the last blocks have columns that are not inside, and without an alignment offset the first has
  // none.
  Tile where_inside(const Scalar& b, const Tile& t, double otherwise) const;

  KernelBuilder& k_;
  const CrossEntropyMeta& m_;
  const Arguments& args_;
  Scalar row_, classes_;
  Softcap softcap_;
  Scalar rate_;           // 1 / temperature
  Scalar offset_;         // columns by which blocks begin early; empty in tiles that have no room for it
  Scalar offset_number_;  // the same as a number
  Resident logits_;
  Shape shape_;
};

// A row that is ignored (all results 0) or whose label is no class (NaN, and its number in the error word); its results
// are the number that is returned. `row` is needed for a gradient alone.
Scalar fill_row(KernelBuilder& k, const CrossEntropyMeta& m, const CrossEntropyArguments& args,
                const CrossEntropyRow* row, const Scalar& index, const Scalar& ignored);

}  // namespace ligerdsl::kernels
