#include "kernels/cross_entropy/cross_entropy_row.h"

#include <limits>
#include <numbers>

#include "kernels/core/index_view.h"

namespace ligerdsl::kernels {
namespace {

using Sums = CrossEntropyRowSums;

// Returns the name of a per-row result: the caller's tensor, or scratch that the last launch
// reduces.
std::string row_name(const CrossEntropyOptions& m, const std::string& name) {
  return m.reduction == Reduction::none ? name : "row_" + name;
}

DType row_type(const CrossEntropyOptions& m) {
  return m.reduction == Reduction::none ? m.loss_type : f32;
}

// Result of combine(): largest exponent, sum of powers relative to it, sum of exponents times
// powers.
struct Moments {
  Scalar top, total, moment;
};

// Rebases a moment from the largest exponent `from` to `to`: returns the sum of (u + from - to)
// 2^(u + from - to).
template <class T>
T rescaled_moment(const T& from, const T& to, const T& total, const T& moment) {
  const T shift = where(from > -INFINITY, from - to, 0.0f);  // an empty sum has nothing to shift
  return fast_exp2(from - to) * fma(total, shift, moment);
}

// Combines all lanes like combine(OnlineSums), including the moments.
Moments combine(const Tile& top, const Tile& total, const Tile& moment) {
  auto [m, s, t] = reduce(
      {top, total, moment}, [](Scalar am, Scalar as, Scalar at, Scalar bm, Scalar bs, Scalar bt) {
        const OnlineSum both = ligerdsl::combine(OnlineSum{am, as}, OnlineSum{bm, bs});
        const Scalar base = finite_maximum(both.m);
        return carry(both.m, both.s,
                     rescaled_moment(am, base, as, at) + rescaled_moment(bm, base, bs, bt));
      });
  return {m, s, t};
}

}  // namespace

CrossEntropyArguments::CrossEntropyArguments(KernelBuilder& k, const CrossEntropyMeta& m) {
  if (m.with_loss) loss = k.view(row_name(m, "loss"), row_type(m), {dyn});
  if (m.with_z_loss) z_loss = k.view(row_name(m, "z_loss"), row_type(m), {dyn});
  if (m.with_accuracy) accuracy = k.view(row_name(m, "accuracy"), f32, {dyn});
  if (m.with_entropy) entropy = k.view("entropy", f32, {dyn});
  if (m.with_lse) lse = k.view("lse", f32, {dyn});
  if (m.with_predictions) predictions = k.view("predictions", i64, {dyn});
  if (m.with_gradient && !m.without_d_logits)
    d_logits = k.view("d_logits", m.type, {dyn, m.classes});
  if (!m.without_logits) logits = k.view("logits", m.type, {dyn, m.classes});
  labels = index_view(k, "labels", m.label_type);
  if (m.has_bias) bias = k.view("bias", m.bias_type, {m.classes});
  if (m.has_weight) weight = k.view("weight", m.weight_type, {m.classes});
  if (m.with_d_loss) d_loss = k.view("d_loss", m.d_loss_type, {dyn});
  if (m.with_d_entropy) d_entropy = k.view("d_entropy", f32, {dyn});
  if (needs_counts(m)) counts = k.view("counts", f32, {4});
  error = k.view("error", i64, {1});
  ignore_index = k.scalar("ignore_index", i64);
  if (m.part) first_row = k.scalar("first_row", i64);
  if (m.smoothing) label_smoothing = k.scalar("label_smoothing", f32);
  if (m.lse_square) lse_square_scale = k.scalar("lse_square_scale", f32);
  if (m.softcap) softcap = k.scalar("softcap", f32);
  if (m.tempered) temperature = k.scalar("temperature", f32);
}

Tile base_2(const Tile& z, TileArg minus_base) {
  return fma(z, std::numbers::log2e, minus_base);
}

constexpr double kLeastExponent = -150;  // below the exponent of any f32 power

Tile finite_exponent(const Tile& u) {
  return max(u, kLeastExponent);
}
Scalar finite_exponent(const Scalar& u) {
  return max(u, kLeastExponent);
}

CrossEntropyRow::CrossEntropyRow(KernelBuilder& k, const CrossEntropyMeta& m, const Arguments& args,
                                 const Scalar& row)
    : k_(k), m_(m), args_(args), row_(row), shape_(m.lanes.shape()) {
  classes_ = args.logits.dim(1).to(i32);
  if (m.aligned_blocks) offset_ = args.logits.alignment_offset({row});
  offset_number_ = m.aligned_blocks ? offset_ : k.constant(0, i32);
  assume(row < args.logits.dim(0));  // programs compute only rows that exist
  logits_ = args.logits.partition({squeeze, m.block})
                .resident({row}, {.pad = -INFINITY, .alignment_offset = offset_});
  if (m.softcap) softcap_ = Softcap(args.softcap, m.quick_softcap, m.type);
  if (m.tempered) rate_ = 1.0f / args.temperature;
}

Tile CrossEntropyRow::load(const Scalar& b) const {
  Tile x = logits_.load(b).to(f32).reshape(shape_);
  if (m_.has_bias) x = x + along_row(args_.bias, b);
  if (m_.softcap) x = softcap_(x);
  if (m_.tempered) x = x * rate_;
  return m_.softcap ? where_inside(b, x, -INFINITY) : x;
}

Scalar CrossEntropyRow::load_one(const Scalar& column) const {
  Scalar x = args_.logits.load({row_, column}).to(f32);
  if (m_.has_bias) x = x + args_.bias.load({column}).to(f32);
  if (m_.softcap) x = softcap_(x);
  return m_.tempered ? x * rate_ : x;
}

Tile CrossEntropyRow::at_label(const Scalar& b, const Scalar& label, const TileArg& other,
                               const Tile& t) const {
  const auto look = [&] { return where(columns(b) == label.to(i32), other, t); };
  if (!m_.looped) return look();
  return k_.if_(b == block_of(label), look, [&] { return t; });
}

Tile CrossEntropyRow::deviations(const Tile& z, const Scalar& reference, const Scalar& b) const {
  Tile difference = z - reference;
  if (m_.has_weight) difference = difference * weights(b);
  return where_inside(b, difference, 0.0f);
}

Tile CrossEntropyRow::where_inside(const Scalar& b, const Tile& t, double otherwise) const {
  if (!m_.aligned_blocks && m_.classes % m_.block == 0) return t;
  const auto look = [&] {
    Tile column = columns(b), inside = column < classes_;
    return where(m_.aligned_blocks ? inside && column >= 0 : inside, t, otherwise);
  };
  if (!m_.looped) return look();
  Scalar early = offset_number_ > 0, ends = first_column(b) + m_.block > classes_;
  Scalar outside =
      m_.classes % m_.block == 0 ? early && (b == 0 || ends) : (early && b == 0) || ends;
  return k_.if_(outside, look, [&] { return t; });
}

Sums CrossEntropyRow::sums(const Tile& z, const Scalar& label, const Scalar& reference) const {
  const Scalar first = k_.constant(0, i32);
  Sums out;
  out.base = finite_maximum(reduce_max(z)) * std::numbers::log2e;
  const Tile u = base_2(z, -out.base);
  const Tile powers = at_label(first, label, 0.0f, fast_exp2(u));
  out.others = sum(powers);
  if (m_.entropies()) out.moment = sum(powers * finite_exponent(u));
  if (m_.smoothing) out.deviation = sum(deviations(z, reference, first));
  if (wants_best()) out.best = max(first_column(first) + argmax(z), 0);
  return out;
}

Sums CrossEntropyRow::looped_sums(const Scalar& label, const Scalar& reference) const {
  // The values carried for unused options stay constant, so the compiler removes them.
  const Shape lanes = m_.lanes.carried();
  auto [lane_max, lane_sum, lane_label, lane_deviation, lane_moment, lane_best, lane_index] =
      k_.for_range(
          0, blocks(), 1, pipelined(m_.prefetched ? 2 : 1),
          carry(k_.full(lanes, -INFINITY, f32), k_.zeros(lanes, f32), k_.zeros(lanes, f32),
                k_.zeros(lanes, f32), k_.zeros(lanes, f32), k_.full(lanes, -INFINITY, f32),
                k_.full(lanes, INT32_MAX, i32)),
          [&](Scalar b, Tile top, Tile total, Tile found, Tile deviation, Tile moment, Tile best,
              Tile index) {
            Tile z = load(b);
            // Find z of the label before the powers, so that z can leave the registers after them.
            if (finds_label()) {
              const auto look = [&] {
                return m_.lanes.sum(where(columns(b) == label.to(i32), z, 0.0f));
              };
              found = k_.if_(b == block_of(label), look, [&] { return found; });
            }
            if (m_.smoothing) deviation = deviation + m_.lanes.sum(deviations(z, reference, b));
            Tile added;  // part of the moment in this block
            const auto terms = [&](const Tile& base) {
              const Tile u = base_2(z, -base);
              const Tile powers = at_label(b, label, 0.0f, fast_exp2(u));
              if (m_.entropies()) added = m_.lanes.sum(powers * finite_exponent(u));
              return powers;
            };
            const Tile largest = m_.lanes.reduce_max(z) * std::numbers::log2e;
            const OnlineSums next = accumulate_terms({top, total}, m_.lanes, largest, terms);
            if (m_.entropies())
              moment = rescaled_moment(top, finite_maximum(next.m), total, moment) + added;
            if (wants_best()) {
              auto [value, position] = m_.lanes.max_with_index(z);
              Tile column = first_column(b) + position;
              Tile better = value > best || (value == best && column < index);
              best = where(better, value, best);
              index = where(better, column, index);
            }
            return carry(next.m, next.s, found, deviation, moment, best, index);
          });
  Sums out;
  Scalar top;
  if (m_.entropies()) {
    const Moments all = combine(lane_max, lane_sum, lane_moment);
    top = all.top, out.others = all.total, out.moment = all.moment;
  } else {
    const OnlineSum all = ligerdsl::combine(OnlineSums{lane_max, lane_sum});
    top = all.m, out.others = all.s;
  }
  out.base = finite_maximum(top);
  if (finds_label()) out.label = sum(lane_label);
  if (m_.smoothing) out.deviation = sum(lane_deviation);
  // Columns before the row hold -inf and have a negative index. If all logits are -inf, these
  // columns tie with them; max() then clamps the index to 0.
  if (wants_best())
    out.best = max(reduce_min(where(lane_best == reduce_max(lane_best), lane_index, INT32_MAX)), 0);
  return out;
}

Scalar fill_row(KernelBuilder& k, const CrossEntropyMeta& m, const CrossEntropyArguments& args,
                const CrossEntropyRow* row, const Scalar& index, const Scalar& ignored) {
  Scalar fill = where(ignored, k.constant(0.0f, f32), std::numeric_limits<float>::quiet_NaN());
  if (m.with_loss) args.loss.store({index}, fill.to(args.loss.dtype()));
  if (m.with_z_loss) args.z_loss.store({index}, fill.to(args.z_loss.dtype()));
  if (m.with_lse) args.lse.store({index}, fill);
  if (m.with_entropy) args.entropy.store({index}, fill);
  if (m.with_accuracy) args.accuracy.store({index}, 0.0f);
  if (m.with_predictions) args.predictions.store({index}, -1);
  if (m.with_gradient) {
    k.for_range(0, row->blocks(), 1, [&](Scalar b) { row->store_gradient(b, fill.to(m.type)); });
  }
  Scalar row_of_batch = m.part ? index.to(i64) + args.first_row : index.to(i64);
  atomic_max(args.error.ptr(), kErrorBase - row_of_batch, !ignored);
  return fill;
}

}  // namespace ligerdsl::kernels
