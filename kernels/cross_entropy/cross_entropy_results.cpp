#include "kernels/cross_entropy/cross_entropy_results.h"

#include <numbers>

namespace ligerdsl::kernels {

CrossEntropyResults::CrossEntropyResults(KernelBuilder& k, const CrossEntropyMeta& m,
                                         const CrossEntropyArguments& args,
                                         const CrossEntropyPlace& place,
                                         const CrossEntropyRowSums& sums)
    : k_(k), m_(m), args_(args), place_(place), sums_(sums) {
  const Scalar label_exponent = fma(place_.z_label, std::numbers::log2e, -sums_.base);
  label_power_ = fast_exp2(label_exponent);
  total_ = sums_.others + label_power_;
  log_total_ = log2(total_);
  lse_ = (sums_.base + log_total_) * std::numbers::ln2;
  if (m_.entropies()) {
    label_exponent_ = finite_exponent(label_exponent);
    mean_exponent_ = fma(label_power_, label_exponent_, sums_.moment) / total_;
  }
  set_scales();
}

Scalar CrossEntropyResults::lse_minus(const Scalar& z) const {
  return (log_total_ - fma(z, std::numbers::log2e, -sums_.base)) * std::numbers::ln2;
}

// Sets the scales of the row's loss and z-loss in the reduced result.
void CrossEntropyResults::set_scales() {
  const bool mean = m_.reduction == Reduction::mean && !divides_at_the_end(m_);
  zeta_scale_ = mean ? args_.counts.load({0}) : k_.constant(1.0f, f32);
  loss_scale_ = mean ? args_.counts.load({1}) : k_.constant(1.0f, f32);
  if (m_.token_scaling) {
    Scalar p = label_power_ / total_;
    zeta_scale_ = zeta_scale_ * p;
    loss_scale_ = loss_scale_ * p;
  }
  if (m_.has_weight) label_weight_ = args_.weight.load({place_.label}).to(f32);
  if (m_.smoothing) {
    per_class_ = args_.label_smoothing / place_.classes.to(f32);
    rest_ = 1.0f - args_.label_smoothing;
  }
}
Scalar CrossEntropyResults::target_weight() const {
  if (m_.smoothing && m_.has_weight) return rest_ * label_weight_;
  if (m_.smoothing) return rest_;
  return m_.has_weight ? label_weight_ : k_.constant(1.0f, f32);
}

Scalar CrossEntropyResults::loss() const {
  Scalar loss = target_weight() * lse_minus(place_.z_label);
  if (!m_.smoothing) return loss;
  Scalar above = lse_minus(place_.reference);
  Scalar classes = m_.has_weight ? args_.counts.load({2}) : place_.classes.to(f32);
  return loss + per_class_ * (classes * above - sums_.deviation);
}

void CrossEntropyResults::store() const {
  Scalar total = loss() * loss_scale_;
  if (m_.lse_square) {
    Scalar zeta = args_.lse_square_scale * lse_ * lse_ * zeta_scale_;
    if (m_.with_z_loss) args_.z_loss.store({place_.index}, zeta.to(args_.z_loss.dtype()));
    total = total + zeta;
  } else if (m_.with_z_loss) {
    args_.z_loss.store({place_.index}, 0.0f);
  }
  if (m_.with_loss) args_.loss.store({place_.index}, total.to(args_.loss.dtype()));
  if (m_.with_lse) args_.lse.store({place_.index}, lse_);
  if (m_.with_entropy)
    args_.entropy.store({place_.index}, (log_total_ - mean_exponent_) * std::numbers::ln2);
  if (m_.with_accuracy) {
    Scalar right = sums_.best.to(i64) == place_.label;
    args_.accuracy.store({place_.index}, where(right, k_.constant(1.0f, f32), 0.0f));
  }
  // In a row with NaN there may be no maximum. min() makes the stored prediction a class anyway.
  if (m_.with_predictions)
    args_.predictions.store({place_.index}, min(sums_.best, place_.classes - 1).to(i64));
}

CrossEntropyResults::Coefficients CrossEntropyResults::coefficients() const {
  Scalar loss_scale = loss_scale_, zeta_scale = zeta_scale_;
  if (m_.with_d_loss) {
    Scalar d_loss = m_.reduction == Reduction::none ? args_.d_loss.load({place_.index})
                                                    : args_.d_loss.load({0});
    loss_scale = loss_scale * d_loss.to(f32);
    zeta_scale = zeta_scale * d_loss.to(f32);
  }
  Scalar target = target_weight() * loss_scale;
  Scalar rest =
      m_.lse_square ? 2.0f * args_.lse_square_scale * lse_ * zeta_scale : k_.constant(0.0f, f32);
  Coefficients c;
  if (m_.smoothing) {
    c.smooth = per_class_ * loss_scale;
    rest = rest +
           (m_.has_weight ? c.smooth * args_.counts.load({2}) : args_.label_smoothing * loss_scale);
  }
  Scalar inverse = 1.0f / total_;
  c.power = (target + rest) * inverse;
  c.label = (rest * label_power_ - target * sums_.others) * inverse;  // target (p_y - 1) + rest p_y
  if (m_.smoothing) c.label = c.label - (m_.has_weight ? label_weight_ * c.smooth : c.smooth);
  if (m_.with_d_entropy) {
    c.entropy = args_.d_entropy.load({place_.index}) * -std::numbers::ln2 * inverse;
    c.power = fma(-c.entropy, mean_exponent_, c.power);
    c.label = fma(c.entropy * label_power_, label_exponent_ - mean_exponent_, c.label);
    c.entropy = tempered(c.entropy);
  }
  c.power = tempered(c.power);
  c.label = tempered(c.label);
  if (m_.smoothing) c.smooth = tempered(c.smooth);
  return c;
}

}  // namespace ligerdsl::kernels
