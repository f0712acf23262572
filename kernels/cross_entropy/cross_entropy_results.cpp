#include "kernels/cross_entropy/cross_entropy_results.h"

#include <numbers>

namespace ligerdsl::kernels {

template <class T>
CrossEntropyResultsOf<T>::CrossEntropyResultsOf(KernelBuilder& k, const CrossEntropyMeta& m,
                                                const CrossEntropyArguments& args,
                                                const CrossEntropyPlace<T>& place,
                                                const CrossEntropySums<T>& sums)
    : k_(k), m_(m), args_(args), place_(place), sums_(sums) {
  const T label_exponent = fma(place_.z_label, std::numbers::log2e, -sums_.base);
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

template <class T>
T CrossEntropyResultsOf<T>::lse_minus(const T& z) const {
  return (log_total_ - fma(z, std::numbers::log2e, -sums_.base)) * std::numbers::ln2;
}

// Sets the scales of the row's loss and z-loss, its label's weight and the smoothing constants.
template <class T>
void CrossEntropyResultsOf<T>::set_scales() {
  const bool mean = m_.reduction == Reduction::mean && !divides_at_the_end(m_);
  zeta_scale_ = place_.row.all(mean ? args_.counts.load({0}) : k_.constant(1.0f, f32));
  loss_scale_ = place_.row.all(mean ? args_.counts.load({1}) : k_.constant(1.0f, f32));
  if (m_.token_scaling) {
    T p = label_power_ / total_;
    zeta_scale_ = zeta_scale_ * p;
    loss_scale_ = loss_scale_ * p;
  }
  if (m_.has_weight) label_weight_ = place_.row.element(args_.weight, place_.label).to(f32);
  if (m_.smoothing) {
    per_class_ = args_.label_smoothing / place_.classes.to(f32);
    rest_ = 1.0f - args_.label_smoothing;
  }
}
template <class T>
T CrossEntropyResultsOf<T>::target_weight() const {
  if (m_.smoothing && m_.has_weight) return rest_ * label_weight_;
  if (m_.smoothing) return place_.row.all(rest_);
  return m_.has_weight ? label_weight_ : place_.row.all(k_.constant(1.0f, f32));
}

template <class T>
T CrossEntropyResultsOf<T>::loss() const {
  T loss = target_weight() * lse_minus(place_.z_label);
  if (!m_.smoothing) return loss;
  T above = lse_minus(place_.reference);
  Scalar classes = m_.has_weight ? args_.counts.load({2}) : place_.classes.to(f32);
  return loss + per_class_ * (classes * above - sums_.deviation);
}

template <class T>
void CrossEntropyResultsOf<T>::store() const {
  const auto& row = place_.row;
  T total = loss() * loss_scale_;
  if (m_.lse_square) {
    T zeta = args_.lse_square_scale * lse_ * lse_ * zeta_scale_;
    if (m_.with_z_loss) row.store(args_.z_loss, zeta);
    total = total + zeta;
  } else if (m_.with_z_loss) {
    row.fill(args_.z_loss, 0.0f);
  }
  if (m_.with_loss) row.store(args_.loss, total);
  if (m_.with_lse) row.store(args_.lse, lse_);
  if (m_.with_entropy)
    row.store(args_.entropy, (log_total_ - mean_exponent_) * std::numbers::ln2);
  if (m_.with_accuracy) {
    T right = sums_.best.to(i64) == place_.label;
    row.store_right(args_.accuracy, where(right, k_.constant(1.0f, f32), 0.0f));
  }
  // A row with NaN may have no maximum. min() makes the stored prediction a valid class anyway.
  if (m_.with_predictions)
    row.store(args_.predictions, min(sums_.best, place_.classes - 1).to(i64));
}

template <class T>
typename CrossEntropyResultsOf<T>::Coefficients CrossEntropyResultsOf<T>::coefficients() const {
  T loss_scale = loss_scale_, zeta_scale = zeta_scale_;
  if (m_.with_d_loss) {
    T d_loss = m_.reduction == Reduction::none ? place_.row.load(args_.d_loss)
                                               : place_.row.all(args_.d_loss.load({0}));
    loss_scale = loss_scale * d_loss.to(f32);
    zeta_scale = zeta_scale * d_loss.to(f32);
  }
  T target = target_weight() * loss_scale;
  T rest = m_.lse_square ? 2.0f * args_.lse_square_scale * lse_ * zeta_scale
                         : place_.row.all(k_.constant(0.0f, f32));
  Coefficients c;
  if (m_.smoothing) {
    c.smooth = per_class_ * loss_scale;
    rest = rest +
           (m_.has_weight ? c.smooth * args_.counts.load({2}) : args_.label_smoothing * loss_scale);
  }
  T inverse = 1.0f / total_;
  c.power = (target + rest) * inverse;
  c.label = (rest * label_power_ - target * sums_.others) * inverse;  // target (p_y - 1) + rest p_y
  if (m_.smoothing) c.label = c.label - (m_.has_weight ? label_weight_ * c.smooth : c.smooth);
  if (m_.with_d_entropy) {
    c.entropy = place_.row.load(args_.d_entropy) * -std::numbers::ln2 * inverse;
    c.power = fma(-c.entropy, mean_exponent_, c.power);
    c.label = fma(c.entropy * label_power_, label_exponent_ - mean_exponent_, c.label);
    c.entropy = tempered(c.entropy);
  }
  c.power = tempered(c.power);
  c.label = tempered(c.label);
  if (m_.smoothing) c.smooth = tempered(c.smooth);
  return c;
}

template class CrossEntropyResultsOf<Scalar>;
template class CrossEntropyResultsOf<Tile>;

}  // namespace ligerdsl::kernels
