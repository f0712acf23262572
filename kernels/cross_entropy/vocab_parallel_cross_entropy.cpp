// Cross-entropy over a sharded vocabulary. Arithmetic is f32. For a row with label y, a shard s of
// V_s classes computes
//
//   m_s = max x_c,  o_s = sum of e^(x_c - m_s) over c != y,  z_s = x_y if the shard owns y, else 0
//   with smoothing also b_s = sum of (x_c - m_s), and V_s
//
// From the statistics of all shards, with a = label_smoothing and K classes to smooth over
// (vocab_parallel_cross_entropy.op.py), each device computes
//
//   M = max(m_s, z),  z = sum z_s,  o = sum of o_s e^(m_s - M),  t = o + e^(z - M)
//   loss = (1-a) (log t + M - z) + a log t + a / K sum over c of (M - x_c)
//   d_c = e^(x_c - M) / t - a / K,  d_y = (a e^(z - M) - (1-a) o) / t - a / K
//   sum over c of (M - x_c) = sum over shards of V_s (M - m_s) - b_s
//
// The sum o excludes the label's power: as p_y approaches 1, only o keeps the digits of 1 - p_y.
// The loss is computed from M - z and log t, not from lse, so large logits lose no digits. The
// terms M - x_c have one sign, so their sum does not cancel.
//
// m_s need not be the exact maximum, but o_s and b_s must be relative to the stored m_s. Exponents
// are in base 2, relative to the rounded M log2(e). For large M the rounding error is significant,
// so o_s and 1 / t are multiplied by a correction (from_base_2).
//
// Bytes moved: n V_s sizeof(type) for the statistics, twice as much for the gradient. The second
// operation needs no reduction over a row. Without a gradient, it does not read the logits.
#include "kernels/cross_entropy/vocab_parallel_cross_entropy.h"

#include <numbers>
#include <optional>

#include "kernels/core/index_view.h"
#include "kernels/cross_entropy/cross_entropy_row.h"

namespace ligerdsl::kernels {
namespace {

using Arguments = CrossEntropyArguments;
using Row = CrossEntropyRow;

struct Vocabulary {
  Scalar first, classes;  // the shard's first class; number of classes of the whole vocabulary

  explicit Vocabulary(KernelBuilder& k)
      : first(k.scalar("first_class", i64)), classes(k.scalar("total_classes", i64)) {}
};

// A row's label, numbered as a class of the whole vocabulary.
struct ShardLabel {
  Scalar ignored, counts;  // i1
  Scalar owned;            // i1: true if this shard has the class
  Scalar local;            // column in the shard, or -1

  ShardLabel(KernelBuilder& k, const VocabParallelMeta& m, const Scalar& label,
             const Scalar& ignore_index, const Vocabulary& vocabulary) {
    ignored = label == ignore_index;
    counts = !ignored && label >= 0 && label < vocabulary.classes;
    const Scalar column = label - vocabulary.first;
    owned = label >= vocabulary.first && column < m.classes;
    local = where(owned, column, k.constant(-1, i64));
  }
};

// Returns e^x for x <= 0, or for x slightly above 0 through rounding.
Scalar power_of_e(const Scalar& x) {
  return fast_exp2(x * std::numbers::log2e);
}

// Returns the factor that converts powers relative to 2^base to powers relative to e^x. x is nearly
// base ln 2.
Scalar from_base_2(const Scalar& base, const Scalar& x) {
  return fast_exp2(fma(-x, std::numbers::log2e, base));
}

// Statistics of all shards.
struct Partials {
  View view;
  Scalar shards, shard;  // number of shards; this program's shard, with shard_smoothing

  Partials(KernelBuilder& k, const VocabParallelMeta& m)
      : view(k.view("partials", f32, {dyn, dyn})) {
    shards = k.scalar("shards", i64);
    if (m.shard_smoothing) shard = k.scalar("shard", i64);
  }
};

// Statistics of a row over all shards.
class MergedRow {
 public:
  MergedRow(KernelBuilder& k, const VocabParallelMeta& m, const Partials& partials,
            const Scalar& rows, const Scalar& index)
      : m_(m), partials_(partials.view), rows_(rows), index_(index.to(i64)) {
    const Scalar zero = k.constant(0.0f, f32);
    auto [top, label] = k.for_range(
        0, partials.shards, 1, unrolled(4), carry(k.constant(-INFINITY, f32), zero),
        [&](Scalar shard, Scalar top, Scalar label) {
          return carry(max(top, load(shard, kPartialMaximum)), label + load(shard, kPartialLabel));
        });
    maximum_ = finite_maximum(max(top, label));
    auto [sum, below] = k.for_range(0, partials.shards, 1, unrolled(4), carry(zero, zero),
                                    [&](Scalar shard, Scalar sum, Scalar below) {
                                      const Scalar least = load(shard, kPartialMaximum) - maximum_;
                                      sum =
                                          fma(load(shard, kPartialOthers), power_of_e(least), sum);
                                      if (m_.smoothing && !m_.shard_smoothing)
                                        below = below + below_maximum(shard);
                                      return carry(sum, below);
                                    });
    others = sum;
    label_below_ = maximum_ - label;
    label_power = power_of_e(-label_below_);
    total = others + label_power;
    log_total_ = log2(total) * std::numbers::ln2;
    if (m.smoothing) below_ = m.shard_smoothing ? below_maximum(partials.shard) : below;
  }

  Scalar others, label_power, total;  // relative to e^maximum

  Scalar base() const { return maximum_ * std::numbers::log2e; }
  // Returns the factor that converts 2^(x log2(e) - base()) to a probability.
  Scalar inverse_total() const { return from_base_2(base(), maximum_) / total; }

  Scalar loss(const Scalar& smoothing, const Scalar& of_class) const {
    const Scalar label = log_total_ + label_below_;
    if (!m_.smoothing) return label;
    return fma(of_class, below_, fma(smoothing, log_total_, (1.0f - smoothing) * label));
  }

 private:
  Scalar load(const Scalar& shard, int column) const {
    return partials_.load({shard * rows_ + index_, column});
  }
  // Returns the sum of M - x_c over a shard's classes.
  Scalar below_maximum(const Scalar& shard) const {
    const Scalar distance = maximum_ - finite_maximum(load(shard, kPartialMaximum));
    return fma(load(shard, kPartialClasses), distance, -load(shard, kPartialBelow));
  }

  const VocabParallelMeta& m_;
  View partials_;
  Scalar rows_, index_;
  Scalar maximum_, label_below_, log_total_, below_;
};

void partials_of_row(KernelBuilder& k, const VocabParallelMeta& m, const Arguments& args,
                     const View& partials, const Scalar& index, const ShardLabel& label) {
  const Row row(k, m, args, index);
  const auto store = [&](int column, const ScalarArg& value) {
    partials.store({index, column}, value);
  };
  k.if_(
      label.counts,
      [&] {
        const Scalar first = k.constant(0, i32), zero = k.constant(0.0f, f32);
        const Scalar logit = where(label.owned, row.load_one(max(label.local, 0)), zero);
        Tile z;
        if (!m.looped || m.smoothing) z = row.load(first);
        // The reference is near the row's logits, so that deviations stay small.
        const Scalar reference = m.smoothing ? finite_maximum(reduce_max(z)) : zero;
        const CrossEntropyRowSums sums = m.looped ? row.looped_sums(label.local, reference)
                                                  : row.sums(z, label.local, reference);
        const Scalar maximum = sums.base * std::numbers::ln2;
        const Scalar empty = sums.others == 0.0f && !(label.owned && logit > -INFINITY);
        store(kPartialMaximum, where(empty, -INFINITY, maximum));
        store(kPartialOthers, sums.others * from_base_2(sums.base, maximum));
        store(kPartialLabel, logit);
        if (!m.smoothing) return;
        const Scalar classes = row.classes().to(f32);
        store(kPartialBelow, fma(classes, reference - maximum, sums.deviation));
        store(kPartialClasses, classes);
      },
      [&] {
        const Scalar fill = fill_row(k, m, args, nullptr, index, label.ignored);
        for (int column = 0; column < partial_columns(m.smoothing); ++column) store(column, fill);
      });
}

}  // namespace

void vocab_parallel_partials(KernelBuilder& k, const VocabParallelMeta& m) {
  const View partials = k.view("partials", f32, {dyn, dyn});
  Arguments args;
  args.logits = k.view("logits", m.type, {dyn, m.classes});
  args.labels = index_view(k, "labels", m.label_type);
  args.error = k.view("error", i64, {1});
  args.ignore_index = k.scalar("ignore_index", i64);
  const Vocabulary vocabulary(k);
  for_each_row(k, m, args.labels, [&](const Scalar& index, const Scalar& label) {
    partials_of_row(k, m, args, partials, index, {k, m, label, args.ignore_index, vocabulary});
  });
}

namespace {

// Stores loss and gradient of a row. `of_class` is the smoothing per class, a / K.
void loss_of_row(KernelBuilder& k, const VocabParallelMeta& m, const Arguments& args,
                 const Partials& partials, const Scalar& of_class, const Scalar& index,
                 const ShardLabel& label) {
  std::optional<Row> row;
  if (m.with_gradient) row.emplace(k, m, args, index);
  const Scalar& smoothing = args.label_smoothing;
  const auto counted = [&] {
    const MergedRow merged(k, m, partials, args.labels.dim(0), index);
    const bool mean = m.reduction == Reduction::mean && !divides_at_the_end(m);
    Scalar scale = mean ? args.counts.load({0}) : k.constant(1.0f, f32);
    if (m.with_loss)
      args.loss.store({index}, (merged.loss(smoothing, of_class) * scale).to(args.loss.dtype()));
    if (!m.with_gradient) return;
    if (m.with_d_loss) {
      const Scalar each = m.reduction == Reduction::none ? index : k.constant(0, i32);
      scale = scale * args.d_loss.load({each}).to(f32);
    }
    const Scalar power = scale * merged.inverse_total(), base = merged.base();
    Scalar of_label = -merged.others;
    if (m.smoothing)
      of_label = fma(smoothing, merged.label_power, (smoothing - 1.0f) * merged.others);
    of_label = scale * (of_label / merged.total);
    Scalar lower;  // smoothing term of each class
    if (m.smoothing) lower = scale * of_class, of_label = of_label - lower;
    const auto gradient = [&](const Tile& z, const Scalar& b) {
      const Tile p = fast_exp2(base_2(z, -base));
      return row->at_label(b, label.local, of_label,
                           m.smoothing ? fma(p, power, -lower) : p * power);
    };
    const Scalar first = k.constant(0, i32);
    if (!m.looped) return row->store_gradient(first, gradient(row->load(first), first));
    k.for_range(0, row->blocks(), 1,
                [&](Scalar b) { row->store_gradient(b, gradient(row->load(b), b)); });
  };
  k.if_(label.counts, counted,
        [&] { fill_row(k, m, args, row ? &*row : nullptr, index, label.ignored); });
}

}  // namespace

void vocab_parallel_cross_entropy(KernelBuilder& k, const VocabParallelMeta& m) {
  const Arguments args(k, m);
  const Vocabulary vocabulary(k);
  const Partials partials(k, m);
  Scalar of_class;
  if (m.smoothing) of_class = k.scalar("smoothing_of_class", f32);
  for_each_row(k, m, args.labels, [&](const Scalar& index, const Scalar& label) {
    loss_of_row(k, m, args, partials, of_class, index,
                {k, m, label, args.ignore_index, vocabulary});
  });
}

}  // namespace ligerdsl::kernels
