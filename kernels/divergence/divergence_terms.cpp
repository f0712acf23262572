// One element of a divergence between two tensors of rows. Arithmetic is f32. P = e^y and Q = e^x
// if x and y are logarithms:
//
//   kl          y (log max(y, eps) - x)     d/dx  -y
//   forward_kl  P (y - x)                         -P
//   reverse_kl  Q (x - y)                         Q (x - y + 1)
//   jsd         b P (y - log M) + (1-b) Q (x - log M),  M = b P + (1-b) Q,  b = beta
//                                                 (1-b) Q (x - log M)
//   tvd         |x - y| / 2                       sign(x - y) / 2, 0 if they are equal
//
// A term whose weight y, P or Q is 0 is 0, even if its logarithm is infinite.
//
// jsd uses the ratio E = e^(y - x):
//
//   w = (1-b) + b E;  x - log M = -log w;  y - log M = (y - x) - log w
//
// So the gradient has no cancellation between logarithms of tiny probabilities. An element needs
// two exponentials and a logarithm. x and y are clamped to at least kLogTiny, so that neither the
// exponential nor E overflows or underflows.
//
// w = 1 + t with t = b (E - 1). If x is nearly y, rounding 1 + t in f32 would lose t. So f32 inputs
// use series for t and log(1 + t) near 0. Their exponentials are approximate, too: the relative
// error at e^-30 is 3e-6.
#include "kernels/divergence/divergence_terms.h"

#include <limits>
#include <numbers>

namespace ligerdsl::kernels {
namespace {

// Logarithm of a probability that is too small to change a sum. e^85 and e^-85 are still normal f32
// numbers.
constexpr float kLogTiny = -85.0f;

// Returns e^d - 1 with a relative error below 2e-6. Near 0, where the subtraction would cancel, it
// uses a polynomial fitted to (e^d - 1) / d.
Tile less_one(const Tile& power, const Tile& d) {
  const Tile p = fma(
      fma(fma(fma(d, 8.348847739e-3f, 4.177529365e-2f), d, 1.666664183e-1f), d, 4.999983013e-1f), d,
      1.0f);
  return where(abs(d) < 0.25f, p * d, power - 1.0f);
}

}  // namespace

DivergenceTerms::DivergenceTerms(KernelBuilder& k, const DivergenceOptions& o, bool relative)
    : kind_(o.kind), relative_(relative) {
  quick_ = size_of(o.type) == 2 && size_of(o.target_type) == 2;
  // With at_once, one fma adds weight * value of a term to the sum. In 16-bit kernels with a
  // gradient this is slower on an H200, because ptxas then stores the gradients before it computes
  // the logarithms.
  at_once_ = !quick_ || !o.with_gradient;
  if (kind_ == Divergence::jsd) beta_ = k.scalar("beta", f32);
  if (kind_ == Divergence::kl) least_ = k.scalar("eps", f32);
  if (kind_ == Divergence::kl && quick_) least_ = max(least_, std::numeric_limits<float>::min());
}

// Returns the term weight * t. The term is 0 if the weight is 0, even if t is infinite.
DivergenceTerm DivergenceTerms::weighed(const Tile& weight, const Tile& t, const Tile& gradient,
                                        const Tile& q) const {
  DivergenceTerm term{where(weight == 0.0f, 0.0f, weight * t), gradient, q, {}, {}};
  if (at_once_) term.weight = weight, term.of_weight = where(weight == 0.0f, 0.0f, t);
  return term;
}

DivergenceTerm DivergenceTerms::operator()(const Tile& x, const Tile& y) const {
  switch (kind_) {
    case Divergence::kl:
      return weighed(y, logarithm(max(y, least_)) - x, -y);
    case Divergence::forward_kl: {
      const Tile p = power(y);
      return weighed(p, y - x, -p);
    }
    case Divergence::reverse_kl: {
      const Tile q = power(x), difference = x - y;
      return weighed(q, difference, weighed(q, difference + 1.0f, {}).loss, q);
    }
    case Divergence::jsd:
      return quick_ && at_once_ ? quick_jensen_shannon(x, y) : jensen_shannon(x, y);
    case Divergence::tvd:
      break;
  }
  const Tile difference = x - y;
  // -0.5 if x < y; 0 if they are equal; NaN for a NaN.
  const Tile below = where(difference < 0.0f, -0.5f, difference * 0.0f);
  return {abs(difference) * 0.5f, where(difference > 0.0f, 0.5f, below)};
}

Tile DivergenceTerms::power(const Tile& x) const {
  return quick_ ? fast_exp(x) : exp(x);
}

Tile DivergenceTerms::logarithm(const Tile& x) const {
  return quick_ ? fast_log(x) : log(x);
}

// Returns log(1 + t) with a relative error below 1e-6. With a rounding error c in w = 1 + t, the
// result is about log w + c / w. The code adds c, which is enough: far from w = 1, c is small
// relative to log w. If fast_log is inaccurate near 1, small t use the series of
// 2 atanh(t / (2 + t)).
Tile DivergenceTerms::log_of_one_plus(const Tile& t) const {
  const Tile w = t + 1.0f;
  if (relative_) return fast_log(w) + where(abs(t) < 1.0f, t - (w - 1.0f), 0.0f);
  const Tile s = fast_div(t + t, abs(w) + 1.0f), square = s * s;  // s: twice the series' variable
  const Tile series = fma(fma(fma(square, 1.0f / 448, 1.0f / 80), square, 1.0f / 12), square, 1.0f);
  return where(abs(t) < 0.3f, s * series, fast_log(w));
}

DivergenceTerm DivergenceTerms::jensen_shannon(const Tile& x, const Tile& y) const {
  const Tile bounded = max(x, kLogTiny), d = max(y, kLogTiny) - bounded;
  const Tile q = fast_exp(bounded), ratio = fast_exp(d);
  if (quick_) {
    const Tile log_w = fast_log(fma(ratio, beta_, 1.0f - beta_)),
               gradient = (q * (beta_ - 1.0f)) * log_w;
    return {fma(q * ratio * beta_, d - log_w, gradient), where(x < kLogTiny, 0.0f, gradient), q};
  }
  const Tile share = beta_ * ratio, log_w = log_of_one_plus(beta_ * less_one(ratio, d)),
             own = (beta_ - 1.0f) * log_w;
  const Tile of_q = fma(share, d - log_w, own);
  return {q * of_q, where(x < kLogTiny, 0.0f, q * own), q, q, of_q};
}

// Returns the same term as jensen_shannon, computed with base-2 logarithms. `weight` includes their
// factor ln 2.
DivergenceTerm DivergenceTerms::quick_jensen_shannon(const Tile& x, const Tile& y) const {
  constexpr float kLog2Ln2 = -0.528766373f;
  const Tile bounded = max(x, kLogTiny),
             d = (max(y, kLogTiny) - bounded) * std::numbers::log2e_v<float>;
  const Tile weight = fast_exp2(fma(bounded, std::numbers::log2e_v<float>, kLog2Ln2)),
             share = beta_ * fast_exp2(d);
  const Tile log_w = fast_log2(share + (1.0f - beta_)), own = (beta_ - 1.0f) * log_w;
  const Tile gradient = where(x < kLogTiny, 0.0f, weight * own),
             of_weight = fma(share, d - log_w, own);
  return {weight * of_weight, gradient, weight * std::numbers::log2e_v<float>, weight, of_weight};
}

}  // namespace ligerdsl::kernels
