// Cross-entropy of logits x [n, V] and labels y [n]. Arithmetic is f32. For a row that is not
// ignored:
//
//   x += bias, if there is one;  z = softcap tanh(x / softcap), or x;  z /= temperature
//   lse = log sum_c e^z_c;  p_c = e^(z_c - lse);  a = label_smoothing, e = a / V
//   loss = (1-a) (lse - z_y) + a lse - e sum_c z_c
//        = (1-a) w_y (lse - z_y) + e (W lse - sum_c w_c z_c)  with class weights w, W = sum_c w_c
//   zeta = lse_square_scale lse^2
//   mean: loss / S + zeta / n, with S and n of cross_entropy_count;  sum and none: loss + zeta
//   d_c = p_c (1 + 2 lse_square_scale lse) - e - (1-a) [c = y]                          (mean: / n)
//       = w_y (1-a) (p_c - [c = y]) + e (W p_c - w_c)                                   (mean: / S)
//         + 2 lse_square_scale lse p_c                                                  (mean: / n)
//   entropy = lse - sum_c p_c z_c;  with its upstream gradient h: d_c -= h p_c (log p_c + entropy)
//   d_c *= 1 - (z_c / softcap)^2, with z before the division by temperature;  d_c /= temperature
//   token scaling: multiplies loss, zeta and d by p_y, except for the terms of h
//
// For large logits, lse - z_c loses digits to cancellation. The kernels therefore compute it from
// z_c - max and log(sum), not from lse. The sum over c of lse - z_c is computed relative to z_y.
//
// Bytes moved, with s = sizeof(type): n V s for the loss, 2 n V s with the gradient. For the
// gradient, a row that does not fit in a tile is read twice. The second pass runs backwards, to
// begin with cached elements. Each pass computes one exponential per element.
#include "kernels/cross_entropy/cross_entropy.h"

#include <numbers>

#include "kernels/cross_entropy/cross_entropy_results.h"
#include "kernels/cross_entropy/cross_entropy_tile.h"

namespace ligerdsl::kernels {
namespace {

using Arguments = CrossEntropyArguments;
using Row = CrossEntropyRow;
using Coefficients = CrossEntropyResults::Coefficients;

// A row whose label is a class and not ignore_index.
class CountedRow {
 public:
  CountedRow(KernelBuilder& k, const CrossEntropyMeta& m, const Arguments& args, const Row& row,
             const Scalar& index, const Scalar& label)
      : k_(k), m_(m), args_(args), row_(row), index_(index), label_(label) {}

  void run() {
    if (!row_.finds_label()) {
      z_label_ = row_.load_one(label_);
      reference_ = where(z_label_ > -INFINITY, z_label_, 0.0f);
    }
    const Scalar first = k_.constant(0, i32);
    Tile z;
    if (!m_.looped) z = row_.load(first);
    sums_ = m_.looped ? row_.looped_sums(label_, reference_) : row_.sums(z, label_, reference_);
    if (row_.finds_label()) z_label_ = sums_.label;
    const CrossEntropyResults results(
        k_, m_, args_, {OneRow(index_), label_, row_.classes(), z_label_, reference_, row_.rate()},
        sums_);
    results.store();
    if (!m_.with_gradient) return;
    const Coefficients c = results.coefficients();
    if (!m_.looped) return row_.store_gradient(first, gradient(z, c, first));
    k_.for_range(0, row_.blocks(), 1, [&](Scalar i) {
      Scalar b = row_.blocks() - 1 - i;
      row_.store_gradient(b, gradient(row_.load(b), c, b));
    });
  }

 private:
  Tile gradient(const Tile& z, const Coefficients& c, const Scalar& b) const {
    // Explicit fma, so that results do not depend on contraction by the compiler.
    const Tile u = base_2(z, -sums_.base);
    Tile d = fast_exp2(u);
    const auto scaled = [&](const auto& power) {
      if (!m_.smoothing) return d * power;
      return m_.has_weight ? fma(d, power, -(row_.weights(b) * c.smooth))
                           : fma(d, power, -c.smooth);
    };
    d = m_.with_d_entropy ? scaled(fma(finite_exponent(u), c.entropy, c.power)) : scaled(c.power);
    d = row_.at_label(b, label_, c.label, d);
    return m_.softcap ? d * row_.cap_slope(z) : d;
  }

  KernelBuilder& k_;
  const CrossEntropyMeta& m_;
  const Arguments& args_;
  const Row& row_;
  Scalar index_, label_, z_label_, reference_;
  CrossEntropyRowSums sums_;
};

}  // namespace

bool needs_counts(const CrossEntropyOptions& m) {
  if (divides_at_the_end(m)) return false;
  return m.reduction == Reduction::mean || (m.has_weight && m.smoothing) ||
         (m.with_accuracy && m.reduction != Reduction::none);
}

namespace {

void one_row(KernelBuilder& k, const CrossEntropyMeta& m, const Arguments& args,
             const Scalar& index, const Scalar& label) {
  const Row row(k, m, args, index);
  const Scalar ignored = label == args.ignore_index;
  const Scalar is_class = label >= 0 && label < args.logits.dim(1);
  k.if_(
      !ignored && is_class, [&] { CountedRow(k, m, args, row, index, label).run(); },
      [&] { fill_row(k, m, args, &row, index, ignored); });
}

}  // namespace

void cross_entropy_rows(KernelBuilder& k, const CrossEntropyMeta& m) {
  const Arguments args(k, m);
  if (m.rows > 1) return cross_entropy_tile(k, m, args);
  for_each_row(k, m, args.labels, [&](const Scalar& index, const Scalar& label) {
    one_row(k, m, args, index, label);
  });
}

}  // namespace ligerdsl::kernels
