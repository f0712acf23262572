// Cross-entropy of logits x [n, V] and labels y [n]; arithmetic in f32. For a row that is not ignored:
//
//   x += bias, where there is one;  z = softcap tanh(x / softcap) or x;  z /= temperature
//   lse = log sum_c e^z_c;  p_c = e^(z_c - lse);  a = label_smoothing, e = a / V
//   loss = (1-a) (lse - z_y) + a lse - e sum_c z_c
//        = (1-a) w_y (lse - z_y) + e (W lse - sum_c w_c z_c)  with class weights w, W = sum_c w_c
//   zeta = lse_square_scale lse^2
//   mean: loss / S + zeta / n;  sum and none: loss + zeta
//   d_c = p_c (1 + 2 lse_square_scale lse) - e - (1-a) [c = y]                                          (mean: / n)
//       = w_y (1-a) (p_c - [c = y]) + e (W p_c - w_c)  (mean: / S)  + 2 lse_square_scale lse p_c        (mean: / n)
//   entropy = lse - sum_c p_c z_c, and with h, its upstream gradient, d_c -= h p_c (log p_c + entropy)
//   d_c *= 1 - (z_c / softcap)^2, by the z before temperature divides it;  d_c /= temperature
//   token scaling: loss, zeta and d times p_y, but not what comes from h
//
// Large logits cancel in lse - z_c, so that difference is formed from z_c - max and log(sum), never from lse itself;
// the sum over c of lse - z_c is taken relative to z_y for the same reason.
//
// Bytes, s = sizeof(type): loss only n V s; with the gradient 2 n V s, and another n V s where a row does not fit a
// tile (the second pass runs backwards, so it begins with what the caches hold). One exponential per element and pass.
#include "kernels/cross_entropy.h"

#include <numbers>

#include "kernels/cross_entropy_row.h"

namespace ligerdsl::kernels {
namespace {

using Arguments = CrossEntropyArguments;
using Row = CrossEntropyRow;

// The coefficients of a row: d_c = 2^u_c * (power + u_c * entropy) - [w_c] * smooth, and the finished d_y of the label.
struct Coefficients {
  Scalar power, entropy, smooth, label;
};

// A row whose label counts.
class CountedRow {
 public:
  CountedRow(KernelBuilder& k, const CrossEntropyMeta& m, const Arguments& args, const Row& row, const Scalar& index,
             const Scalar& label)
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
    const Scalar label_exponent = fma(z_label_, std::numbers::log2e, -sums_.base);
    label_power_ = fast_exp2(label_exponent);
    total_ = sums_.others + label_power_;
    log_total_ = log2(total_);
    lse_ = (sums_.base + log_total_) * std::numbers::ln2;
    if (m_.entropies()) {
      label_exponent_ = finite_exponent(label_exponent);
      mean_exponent_ = fma(label_power_, label_exponent_, sums_.moment) / total_;
    }
    set_scales();
    store_results();
    if (!m_.with_gradient) return;
    const Coefficients c = coefficients();
    if (!m_.looped) return row_.store_gradient(first, gradient(z, c, first));
    k_.for_range(0, row_.blocks(), 1, [&](Scalar i) {
      Scalar b = row_.blocks() - 1 - i;
      row_.store_gradient(b, gradient(row_.load(b), c, b));
    });
  }

 private:
  // lse - z without the loss of accuracy of large values.
  Scalar lse_minus(const Scalar& z) const {
    return (log_total_ - fma(z, std::numbers::log2e, -sums_.base)) * std::numbers::ln2;
  }

  // What multiplies the loss and the z-loss of this row in the reduced result.
  void set_scales() {
    const bool mean = m_.reduction == Reduction::mean && !divides_at_the_end(m_);
    zeta_scale_ = mean ? args_.counts.load({0}) : k_.constant(1.0f, f32);
    loss_scale_ = mean ? args_.counts.load({1}) : k_.constant(1.0f, f32);
    if (m_.token_scaling) {
      Scalar p = label_power_ / total_;
      zeta_scale_ = zeta_scale_ * p;
      loss_scale_ = loss_scale_ * p;
    }
    if (m_.has_weight) label_weight_ = args_.weight.load({label_}).to(f32);
    if (m_.smoothing) {
      per_class_ = args_.label_smoothing / row_.classes().to(f32);
      rest_ = 1.0f - args_.label_smoothing;
    }
  }
  // (1 - a) w_y
  Scalar target_weight() const {
    if (m_.smoothing && m_.has_weight) return rest_ * label_weight_;
    if (m_.smoothing) return rest_;
    return m_.has_weight ? label_weight_ : k_.constant(1.0f, f32);
  }

  Scalar loss() const {
    Scalar loss = target_weight() * lse_minus(z_label_);
    if (!m_.smoothing) return loss;
    Scalar above = lse_minus(reference_);
    Scalar classes = m_.has_weight ? args_.counts.load({2}) : row_.classes().to(f32);
    return loss + per_class_ * (classes * above - sums_.deviation);
  }

  void store_results() const {
    Scalar total = loss() * loss_scale_;
    if (m_.lse_square) {
      Scalar zeta = args_.lse_square_scale * lse_ * lse_ * zeta_scale_;
      if (m_.with_z_loss) args_.z_loss.store({index_}, zeta.to(args_.z_loss.dtype()));
      total = total + zeta;
    } else if (m_.with_z_loss) {
      args_.z_loss.store({index_}, 0.0f);
    }
    if (m_.with_loss) args_.loss.store({index_}, total.to(args_.loss.dtype()));
    if (m_.with_lse) args_.lse.store({index_}, lse_);
    if (m_.with_entropy) args_.entropy.store({index_}, (log_total_ - mean_exponent_) * std::numbers::ln2);
    if (m_.with_accuracy) {
      Scalar right = sums_.best.to(i64) == label_;
      args_.accuracy.store({index_}, where(right, k_.constant(1.0f, f32), 0.0f));
    }
    // In a row with NaN no element may be the largest, but what is stored is a class.
    if (m_.with_predictions) args_.predictions.store({index_}, min(sums_.best, row_.classes() - 1).to(i64));
  }

  Coefficients coefficients() const {
    Scalar loss_scale = loss_scale_, zeta_scale = zeta_scale_;
    if (m_.with_d_loss) {
      Scalar d_loss = m_.reduction == Reduction::none ? args_.d_loss.load({index_}) : args_.d_loss.load({0});
      loss_scale = loss_scale * d_loss.to(f32);
      zeta_scale = zeta_scale * d_loss.to(f32);
    }
    Scalar target = target_weight() * loss_scale;
    Scalar rest = m_.lse_square ? 2.0f * args_.lse_square_scale * lse_ * zeta_scale : k_.constant(0.0f, f32);
    Coefficients c;
    if (m_.smoothing) {
      c.smooth = per_class_ * loss_scale;
      rest = rest + (m_.has_weight ? c.smooth * args_.counts.load({2}) : args_.label_smoothing * loss_scale);
    }
    Scalar inverse = 1.0f / total_;
    c.power = (target + rest) * inverse;
    c.label = (rest * label_power_ - target * sums_.others) * inverse;  // target (p_y - 1) + rest p_y
    if (m_.smoothing) c.label = c.label - (m_.has_weight ? label_weight_ * c.smooth : c.smooth);
    if (m_.with_d_entropy) {
      c.entropy = args_.d_entropy.load({index_}) * -std::numbers::ln2 * inverse;
      c.power = fma(-c.entropy, mean_exponent_, c.power);
      c.label = fma(c.entropy * label_power_, label_exponent_ - mean_exponent_, c.label);
      c.entropy = row_.tempered(c.entropy);
    }
    c.power = row_.tempered(c.power);
    c.label = row_.tempered(c.label);
    if (m_.smoothing) c.smooth = row_.tempered(c.smooth);
    return c;
  }

  Tile gradient(const Tile& z, const Coefficients& c, const Scalar& b) const {
    // Explicit fma: the same bits wherever the compiler would or would not contract.
    const Tile u = base_2(z, -sums_.base);
    Tile d = fast_exp2(u);
    const auto scaled = [&](const auto& power) {
      if (!m_.smoothing) return d * power;
      return m_.has_weight ? fma(d, power, -(row_.weights(b) * c.smooth)) : fma(d, power, -c.smooth);
    };
    d = m_.with_d_entropy ? scaled(fma(finite_exponent(u), c.entropy, c.power)) : scaled(c.power);
    d = row_.at_label(b, label_, c.label, d);
    return m_.softcap ? d * row_.cap_slope(z) : d;
  }

  KernelBuilder& k_;
  const CrossEntropyMeta& m_;
  const Arguments& args_;
  const Row& row_;
  Scalar index_, label_, z_label_, reference_, label_power_, total_, log_total_, lse_;
  Scalar zeta_scale_, loss_scale_, label_weight_, per_class_, rest_;
  Scalar label_exponent_, mean_exponent_;  // entropy: u of the label, and the mean of u by the probabilities
  CrossEntropyRowSums sums_;
};

}  // namespace

bool needs_counts(const CrossEntropyOptions& m) {
  if (divides_at_the_end(m)) return false;
  return m.reduction == Reduction::mean || (m.has_weight && m.smoothing) ||
         (m.with_accuracy && m.reduction != Reduction::none);
}

void cross_entropy_rows(KernelBuilder& k, const CrossEntropyMeta& m) {
  const Arguments args(k, m);
  Scalar index = k.program_id(0);
  const Row row(k, m, args, index);
  Scalar label = args.labels.load({index}).to(i64);  // labels are compared in 64 bits
  Scalar ignored = label == args.ignore_index;
  Scalar is_class = label >= 0 && label < args.logits.dim(1);
  k.if_(
      !ignored && is_class, [&] { CountedRow(k, m, args, row, index, label).run(); },
      [&] { fill_row(k, m, args, &row, index, ignored); });
}

}  // namespace ligerdsl::kernels
