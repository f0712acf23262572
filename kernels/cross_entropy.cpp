// Cross-entropy of logits x [n, V] and labels y [n]; arithmetic in f32. For a row that is not ignored:
//
//   x += bias, where there is one;  z = softcap tanh(x / softcap) or x
//   lse = log sum_c e^z_c;  p_c = e^(z_c - lse);  a = label_smoothing, e = a / V
//   loss = (1-a) (lse - z_y) + a lse - e sum_c z_c
//        = (1-a) w_y (lse - z_y) + e (W lse - sum_c w_c z_c)  with class weights w, W = sum_c w_c
//   zeta = lse_square_scale lse^2
//   mean: loss / S + zeta / n;  sum and none: loss + zeta
//   d_c = p_c (1 + 2 lse_square_scale lse) - e - (1-a) [c = y]                                          (mean: / n)
//       = w_y (1-a) (p_c - [c = y]) + e (W p_c - w_c)  (mean: / S)  + 2 lse_square_scale lse p_c        (mean: / n)
//   d_c *= 1 - (z_c / softcap)^2
//   token scaling: loss, zeta and d times p_y
//
// Large logits cancel in lse - z_c, so that difference is formed from z_c - max and log(sum), never from lse itself;
// the sum over c of lse - z_c is taken relative to z_y for the same reason.
//
// Bytes, s = sizeof(type): loss only n V s; with the gradient 2 n V s, and another n V s where a row does not fit a
// tile (the second pass runs backwards, so it begins with what the caches hold). One exponential per element and pass.
#include "kernels/cross_entropy.h"

#include <limits>
#include <numbers>

#include "kernels/softcap.h"

namespace ligerdsl::kernels {
namespace {

// The name of a per-row result: the caller's tensor, or the scratch that the last launch adds up.
std::string row_name(const CrossEntropyOptions& m, const std::string& name) {
  return m.reduction == Reduction::none ? name : "row_" + name;
}

DType row_type(const CrossEntropyOptions& m) {
  return m.reduction == Reduction::none ? m.loss_type : f32;
}

struct Arguments {
  View loss, z_loss, accuracy, lse, predictions, d_logits, logits, labels, bias, weight, d_loss, counts, error;
  Scalar ignore_index, first_row, label_smoothing, lse_square_scale, softcap;

  Arguments(KernelBuilder& k, const CrossEntropyMeta& m) {
    if (m.with_loss) loss = k.view(row_name(m, "loss"), row_type(m), {dyn});
    if (m.with_z_loss) z_loss = k.view(row_name(m, "z_loss"), row_type(m), {dyn});
    if (m.with_accuracy) accuracy = k.view(row_name(m, "accuracy"), f32, {dyn});
    if (m.with_lse) lse = k.view("lse", f32, {dyn});
    if (m.with_predictions) predictions = k.view("predictions", i64, {dyn});
    if (m.with_gradient) d_logits = k.view("d_logits", m.type, {dyn, m.classes});
    logits = k.view("logits", m.type, {dyn, m.classes});
    labels = k.view("labels", m.label_type, {dyn});
    if (m.has_bias) bias = k.view("bias", m.bias_type, {m.classes});
    if (m.has_weight) weight = k.view("weight", m.weight_type, {m.classes});
    if (m.with_d_loss) d_loss = k.view("d_loss", m.d_loss_type, {dyn});
    if (needs_counts(m)) counts = k.view("counts", f32, {4});
    error = k.view("error", i64, {1});
    ignore_index = k.scalar("ignore_index", i64);
    if (m.part) first_row = k.scalar("first_row", i64);
    if (m.smoothing) label_smoothing = k.scalar("label_smoothing", f32);
    if (m.lse_square) lse_square_scale = k.scalar("lse_square_scale", f32);
    if (m.softcap) softcap = k.scalar("softcap", f32);
  }
};

// What the passes over a row find out. Base 2: e_c = 2^(z_c log2(e) - base).
struct RowSums {
  Scalar base;       // the maximum, in base 2
  Scalar others;     // sum of e_c without the label's: as p_y nears 1, 1 - p_y keeps its digits only here
  Scalar deviation;  // smoothing: sum of [w_c] (z_c - reference)
  Scalar best;       // accuracy, predictions: lowest index of the largest z, i32
  Scalar label;      // z of the label, where it was not loaded (Row::finds_label)
};

// Arguments are 0 or less: the approximate exponential is as good, but for what it flushes to 0 below 2^-126.
Tile powers(const Tile& z, TileArg minus_base) {
  return fast_exp2(fma(z, std::numbers::log2e, minus_base));
}

// One row of logits, in blocks, the first of which begins `alignment_offset` columns early.
class Row {
 public:
  Row(KernelBuilder& k, const CrossEntropyMeta& m, const Arguments& args, const Scalar& row)
      : k_(k), m_(m), args_(args), row_(row), shape_(m.lanes.shape()) {
    classes_ = args.logits.dim(1).to(i32);
    if (m.aligned_blocks) offset_ = args.logits.alignment_offset({row});
    offset_number_ = m.aligned_blocks ? offset_ : k.constant(0, i32);
    assume(row < args.logits.dim(0));  // a program for each row
    logits_ =
        args.logits.partition({squeeze, m.block}).resident({row}, {.pad = -INFINITY, .alignment_offset = offset_});
    if (m.softcap) softcap_ = Softcap(args.softcap, m.quick_softcap, m.type);
  }

  const Scalar& classes() const { return classes_; }
  Scalar blocks() const { return logits_.blocks(); }
  Scalar first_column(const Scalar& b) const { return b * m_.block - offset_number_; }
  Scalar block_of(const Scalar& column) const { return (column.to(i32) + offset_number_) / m_.block; }
  Tile columns(const Scalar& b) const { return (first_column(b) + k_.arange(m_.block)).reshape(shape_); }

  // z of a block; -inf beyond the row.
  Tile load(const Scalar& b) const {
    Tile x = logits_.load(b).to(f32).reshape(shape_);
    if (m_.has_bias) x = x + along_row(args_.bias, b);
    return m_.softcap ? where_inside(b, softcap_(x), -INFINITY) : x;
  }
  Scalar load_one(const Scalar& column) const {
    Scalar x = args_.logits.load({row_, column}).to(f32);
    if (m_.has_bias) x = x + args_.bias.load({column}).to(f32);
    return m_.softcap ? softcap_(x) : x;
  }
  Tile weights(const Scalar& b) const { return along_row(args_.weight, b); }
  // dz/dx
  Tile cap_slope(const Tile& z) const { return softcap_.slope(z); }
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
  Tile at_label(const Scalar& b, const Scalar& label, const TileArg& other, const Tile& t) const {
    const auto look = [&] { return where(columns(b) == label.to(i32), other, t); };
    if (!m_.looped) return look();
    return k_.if_(b == block_of(label), look, [&] { return t; });
  }

  // `reference` is what deviations are relative to.
  RowSums sums(const Tile& z, const Scalar& label, const Scalar& reference) const;  // of a row that is one block
  RowSums looped_sums(const Scalar& label, const Scalar& reference) const;

 private:
  bool wants_best() const { return m_.with_accuracy || m_.with_predictions; }
  // The part of `deviation` in a block.
  Tile deviations(const Tile& z, const Scalar& reference, const Scalar& b) const {
    Tile difference = z - reference;
    if (m_.has_weight) difference = difference * weights(b);
    return where_inside(b, difference, 0.0f);
  }
  Tile along_row(const View& view, const Scalar& b) const {
    return view.partition({m_.block}).load({b}, {.alignment_offset = offset_}).to(f32).reshape(shape_);
  }
  // Only the first and the last blocks have columns that are not inside, and without an alignment offset the first has
  // none.
  Tile where_inside(const Scalar& b, const Tile& t, double otherwise) const {
    if (!m_.aligned_blocks && m_.classes % m_.block == 0) return t;
    const auto look = [&] {
      Tile column = columns(b), inside = column < classes_;
      return where(m_.aligned_blocks ? inside && column >= 0 : inside, t, otherwise);
    };
    if (!m_.looped) return look();
    Scalar early = offset_number_ > 0, ends = first_column(b) + m_.block > classes_;
    Scalar outside = m_.classes % m_.block == 0 ? early && (b == 0 || ends) : (early && b == 0) || ends;
    return k_.if_(outside, look, [&] { return t; });
  }

  KernelBuilder& k_;
  const CrossEntropyMeta& m_;
  const Arguments& args_;
  Scalar row_, classes_;
  Softcap softcap_;
  Scalar offset_;         // columns by which blocks begin early; empty in tiles that have no room for it
  Scalar offset_number_;  // the same as a number
  Resident logits_;
  Shape shape_;
};

RowSums Row::sums(const Tile& z, const Scalar& label, const Scalar& reference) const {
  const Scalar first = k_.constant(0, i32);
  RowSums out;
  out.base = finite_maximum(reduce_max(z)) * std::numbers::log2e;
  out.others = sum(at_label(first, label, 0.0f, powers(z, -out.base)));
  if (m_.smoothing) out.deviation = sum(deviations(z, reference, first));
  if (wants_best()) out.best = max(first_column(first) + argmax(z), 0);
  return out;
}

RowSums Row::looped_sums(const Scalar& label, const Scalar& reference) const {
  // Values that the options do not ask for are not carried far: they stay constant.
  const Shape lanes = m_.lanes.carried();
  auto [lane_max, lane_sum, lane_label, lane_deviation, lane_best, lane_index] =
      k_.for_range(0, blocks(), 1, pipelined(m_.prefetched ? 2 : 1),
                   carry(k_.full(lanes, -INFINITY, f32), k_.zeros(lanes, f32), k_.zeros(lanes, f32),
                         k_.zeros(lanes, f32), k_.full(lanes, -INFINITY, f32), k_.full(lanes, INT32_MAX, i32)),
                   [&](Scalar b, Tile top, Tile total, Tile found, Tile deviation, Tile best, Tile index) {
                     Tile z = load(b);
                     if (finds_label()) {  // in front of the powers: none of z outlives them
                       const auto look = [&] { return m_.lanes.sum(where(columns(b) == label.to(i32), z, 0.0f)); };
                       found = k_.if_(b == block_of(label), look, [&] { return found; });
                     }
                     if (m_.smoothing) deviation = deviation + m_.lanes.sum(deviations(z, reference, b));
                     const auto terms = [&](const Tile& base) { return at_label(b, label, 0.0f, powers(z, -base)); };
                     const Tile largest = m_.lanes.reduce_max(z) * std::numbers::log2e;
                     const OnlineSums next = accumulate_terms({top, total}, m_.lanes, largest, terms);
                     if (wants_best()) {
                       auto [value, position] = m_.lanes.max_with_index(z);
                       Tile column = first_column(b) + position;
                       Tile better = value > best || (value == best && column < index);
                       best = where(better, value, best);
                       index = where(better, column, index);
                     }
                     return carry(next.m, next.s, found, deviation, best, index);
                   });
  const auto [top, others] = combine(OnlineSums{lane_max, lane_sum});
  RowSums out{.base = finite_maximum(top), .others = others};
  if (finds_label()) out.label = sum(lane_label);
  if (m_.smoothing) out.deviation = sum(lane_deviation);
  // Columns before the row tie with others that are -inf.
  if (wants_best()) out.best = max(reduce_min(where(lane_best == reduce_max(lane_best), lane_index, INT32_MAX)), 0);
  return out;
}

// The coefficients of a row: d_c = e_c * power - [w_c] * smooth, and the finished d_y of the label.
struct Coefficients {
  Scalar power, smooth, label;
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
    label_power_ = fast_exp2(fma(z_label_, std::numbers::log2e, -sums_.base));
    total_ = sums_.others + label_power_;
    log_total_ = log2(total_);
    lse_ = (sums_.base + log_total_) * std::numbers::ln2;
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
    return c;
  }

  Tile gradient(const Tile& z, const Coefficients& c, const Scalar& b) const {
    // Explicit fma: the same bits wherever the compiler would or would not contract.
    Tile d = powers(z, -sums_.base);
    if (!m_.smoothing) {
      d = d * c.power;
    } else {
      d = m_.has_weight ? fma(d, c.power, -(row_.weights(b) * c.smooth)) : fma(d, c.power, -c.smooth);
    }
    d = row_.at_label(b, label_, c.label, d);
    return m_.softcap ? d * row_.cap_slope(z) : d;
  }

  KernelBuilder& k_;
  const CrossEntropyMeta& m_;
  const Arguments& args_;
  const Row& row_;
  Scalar index_, label_, z_label_, reference_, label_power_, total_, log_total_, lse_;
  Scalar zeta_scale_, loss_scale_, label_weight_, per_class_, rest_;
  RowSums sums_;
};

// A row that is ignored (all results 0) or whose label is no class (NaN, and its number in the error word).
void fill_row(KernelBuilder& k, const CrossEntropyMeta& m, const Arguments& args, const Row& row, const Scalar& index,
              const Scalar& ignored) {
  Scalar fill = where(ignored, k.constant(0.0f, f32), std::numeric_limits<float>::quiet_NaN());
  if (m.with_loss) args.loss.store({index}, fill.to(args.loss.dtype()));
  if (m.with_z_loss) args.z_loss.store({index}, fill.to(args.z_loss.dtype()));
  if (m.with_lse) args.lse.store({index}, fill);
  if (m.with_accuracy) args.accuracy.store({index}, 0.0f);
  if (m.with_predictions) args.predictions.store({index}, -1);
  if (m.with_gradient) {
    k.for_range(0, row.blocks(), 1, [&](Scalar b) { row.store_gradient(b, fill.to(m.type)); });
  }
  Scalar row_of_batch = m.part ? index.to(i64) + args.first_row : index.to(i64);
  atomic_max(args.error.ptr(), kErrorBase - row_of_batch, !ignored);
}

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
      [&] { fill_row(k, m, args, row, index, ignored); });
}

}  // namespace ligerdsl::kernels
