// Losses of two tensors of rows, element by element; arithmetic in f32. P = e^y and Q = e^x where x and y are logarithms:
//
//   kl          y (log max(y, eps) - x)     d/dx  -y
//   forward_kl  P (y - x)                         -P
//   reverse_kl  Q (x - y)                         Q (x - y + 1)
//   jsd         b P (y - log M) + (1-b) Q (x - log M),  M = b P + (1-b) Q
//                                                 (1-b) Q (x - log M)
//   tvd         |x - y| / 2                       sign(x - y) / 2, 0 where they are equal
//
// A term whose weight y, P or Q is 0 is 0, whatever its logarithm. Rows that are not counted are 0.
//   sum: everything; batchmean: / n, the rows that count; mean: / (n V); none: element by element
//
// jsd by the ratio of both, E = e^(y - x):  w = (1-b) + b E;  x - log M = -log w;  y - log M = (y - x) - log w
// so no logarithms of tiny probabilities cancel in the gradient. Logarithms below kLogTiny count as that, where neither
// the exponential nor the ratio leaves the range; two exponentials and a logarithm. Of nearly equal rows log w, from 1 + t
// in f32, would be noise: f32 takes t and log(1 + t) near 0 by their series. The exponentials are approximate for f32 too:
// 3e-6 at e^-30.
//
// Bytes, s = sizeof(T): n V (s + sizeof(target type)), another n V s with a gradient. 16-bit tensors leave some 40
// instructions for an element, so theirs are the approximate functions: their errors are below the rounding.
#include "kernels/divergence.h"

#include <limits>

namespace ligerdsl::kernels {
namespace {

// Of a probability that adds to no sum, with a ratio to 1 that is a number.
constexpr float kLogTiny = -85.0f;

struct Term {
  Tile loss, gradient;  // by x
};

class Terms {
 public:
  Terms(KernelBuilder& k, const DivergenceMeta& m) : m_(m) {
    quick_ = size_of(m.type) == 2 && size_of(m.target_type) == 2;
    if (m.kind == Divergence::jsd) beta_ = k.scalar("beta", f32);
    if (m.kind == Divergence::kl) least_ = k.scalar("eps", f32);
    if (m.kind == Divergence::kl && quick_) least_ = max(least_, std::numeric_limits<float>::min());
  }

  Term operator()(const Tile& x, const Tile& y) const {
    switch (m_.kind) {
      case Divergence::kl:
        return {weighed(y, logarithm(max(y, least_)) - x), -y};
      case Divergence::forward_kl: {
        const Tile p = power(y);
        return {weighed(p, y - x), -p};
      }
      case Divergence::reverse_kl: {
        const Tile q = power(x), difference = x - y;
        return {weighed(q, difference), weighed(q, difference + 1.0f)};
      }
      case Divergence::jsd:
        return jensen_shannon(x, y);
      case Divergence::tvd:
        break;
    }
    const Tile difference = x - y;
    const Tile below = where(difference < 0.0f, -0.5f, difference * 0.0f);  // 0, or NaN of a NaN
    return {abs(difference) * 0.5f, where(difference > 0.0f, 0.5f, below)};
  }

 private:
  Tile power(const Tile& x) const { return quick_ ? fast_exp(x) : exp(x); }
  Tile logarithm(const Tile& x) const { return quick_ ? fast_log(x) : log(x); }
  // 0 infinity is 0 here.
  static Tile weighed(const Tile& weight, const Tile& t) { return where(weight == 0.0f, 0.0f, weight * t); }

  Term jensen_shannon(const Tile& x, const Tile& y) const {
    const Tile bounded = max(x, kLogTiny), d = max(y, kLogTiny) - bounded;
    const Tile q = fast_exp(bounded), ratio = fast_exp(d);
    const Tile log_w = quick_ ? fast_log(fma(ratio, beta_, 1.0f - beta_)) : log_of_one_plus(beta_ * less_one(ratio, d));
    const Tile gradient = (q * (1.0f - beta_)) * -log_w;
    return {fma(q * ratio * beta_, d - log_w, gradient), where(x < kLogTiny, 0.0f, gradient)};
  }

  // e^d - 1, relative error below 2e-6: near 0, where the difference would cancel, the series.
  static Tile less_one(const Tile& power, const Tile& d) {
    const Tile series = fma(fma(fma(fma(fma(d, 1.0f / 720, 1.0f / 120), d, 1.0f / 24), d, 1.0f / 6), d, 0.5f), d, 1.0f);
    return where(abs(d) < 0.25f, series * d, power - 1.0f);
  }

  // log(1 + t), relative error below 1e-6: near 0 the series of 2 atanh(t / (2 + t)).
  static Tile log_of_one_plus(const Tile& t) {
    const Tile w = t + 1.0f, s = fast_div(t + t, abs(w) + 1.0f), square = s * s;  // s: twice the series' variable
    const Tile series = fma(fma(fma(square, 1.0f / 448, 1.0f / 80), square, 1.0f / 12), square, 1.0f);
    return where(abs(t) < 0.3f, s * series, fast_log(w));
  }

  const DivergenceMeta& m_;
  bool quick_;
  Scalar beta_, least_;
};

// What a term is multiplied by in the reduced loss.
Scalar share(KernelBuilder& k, const DivergenceMeta& m, const View& input, const View& counts) {
  if (m.reduction == Reduction::none || m.reduction == Reduction::sum) return k.constant(1.0f, f32);
  Scalar share = m.has_labels ? counts.load({0}) : 1.0f / input.dim(0).to(f32);
  return m.reduction == Reduction::mean ? share * (1.0 / static_cast<double>(m.cols)) : share;
}

}  // namespace

void divergence(KernelBuilder& k, const DivergenceMeta& m) {
  const bool each = m.reduction == Reduction::none;
  View loss, d_input, labels, d_loss, counts;
  Scalar ignore_index;
  if (m.with_loss) loss = each ? k.view("loss", m.loss_type, {dyn, m.cols}) : k.view("row_loss", f32, {dyn});
  if (m.with_gradient) d_input = k.view("d_input", m.type, {dyn, m.cols});
  View input = k.view("input", m.type, {dyn, m.cols});
  View target = k.view("target", m.target_type, {dyn, m.cols});
  if (m.has_labels) {
    labels = k.view("labels", m.label_type, {dyn});
    ignore_index = k.scalar("ignore_index", i64);
  }
  if (m.with_d_loss)
    d_loss = each ? k.view("d_loss", m.d_loss_type, {dyn, m.cols}) : k.view("d_loss", m.d_loss_type, {1});
  if (needs_counts(m)) counts = k.view("counts", f32, {4});
  const Terms terms(k, m);
  const Scalar factor = share(k, m, input, counts);
  Scalar d_factor = factor;
  if (m.with_d_loss && !each) d_factor = factor * d_loss.load({0}).to(f32);

  const Scalar blocks = cdiv(input.dim(1), m.block).to(i32), parts = cdiv(blocks, m.tiles);
  const Scalar row = k.program_id(0) / parts, first = k.program_id(0) % parts * m.tiles;
  Tile counted;  // [rows, 1]
  if (m.has_labels) {
    Tile label = labels.partition({m.rows}).load({row}).to(i64);
    counted = (label != ignore_index).expand_dims(1);
  }
  const auto if_counted = [&](const Tile& t) {
    return m.has_labels ? where(counted.broadcast_to({m.rows, m.block}), t, 0.0f) : t;
  };
  // A tile: what it adds to the reduced loss.
  const auto one = [&](const Scalar& column) {
    const auto load = [&](const View& v) { return v.partition({m.rows, m.block}).load({row, column}).to(f32); };
    const auto store = [&](const View& v, const Tile& t) {
      v.partition({m.rows, m.block}).store({row, column}, t.to(v.dtype()));
    };
    const Term term = terms(load(input), load(target));
    if (m.with_gradient) {
      const Tile d = m.with_d_loss && each ? term.gradient * load(d_loss) : term.gradient * d_factor;
      store(d_input, if_counted(d));
    }
    const Tile loss_of_tile = if_counted(term.loss);
    if (m.with_loss && each) store(loss, loss_of_tile);
    return loss_of_tile;
  };
  const bool summed = m.with_loss && !each;
  Tile total;
  if (m.tiles == 1) {
    total = one(first);
  } else {
    const Scalar end = min(first + m.tiles, blocks);
    const auto add = [&](const Scalar& column, const Tile& sums) { return carry(sums + one(column)); };
    total = std::get<0>(k.for_range(first, end, 1, pipelined(m.stages), carry(k.zeros({m.rows, m.block}, f32)), add));
  }
  if (summed) loss.store({k.program_id(0)}, sum(total) * factor);
}

}  // namespace ligerdsl::kernels
