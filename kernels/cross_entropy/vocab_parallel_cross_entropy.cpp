// Cross-entropy of a vocabulary in shards; arithmetic in f32. A shard s of V_s classes says of a row with label y:
//
//   m_s = max x_c,  o_s = sum of e^(x_c - m_s) over c != y,  z_s = x_y if y is its own, else 0
//   with smoothing also b_s = sum of (x_c - m_s), and V_s
//
// and of all shards' together, with a and K classes to smooth over (vocab_parallel_cross_entropy.op.py):
//
//   M = max(m_s, z),  z = sum z_s,  o = sum of o_s e^(m_s - M),  t = o + e^(z - M)
//   loss = (1-a) (log t + M - z) + a log t + a / K sum over c of (M - x_c)
//   d_c = e^(x_c - M) / t - a / K,  d_y = (a e^(z - M) - (1-a) o) / t - a / K
//   sum of (M - x_c) over the shards: V_s (M - m_s) - b_s
//
// The label's power is apart from the others': as p_y nears 1, 1 - p_y keeps its digits only there. Nothing is
// subtracted that is as large as the logits, and the terms of M - x_c have one sign.
//
// m_s need not be the maximum to the last bit, but o_s and b_s are relative to the number that m_s says. Exponents are
// in base 2 relative to M log2(e) as it is rounded, which is off by more than f32's last bits for large M: t is
// multiplied by what that makes.
//
// Bytes, s = sizeof(T): n V_s s for the statistics, 2 n V_s s for the gradient, all else is a few numbers of a row. The
// second operation needs no reduction and keeps nothing; the loss alone does not read the logits.
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
  Scalar first, classes;  // the shard's first class, and how many the whole vocabulary has

  explicit Vocabulary(KernelBuilder& k)
      : first(k.scalar("first_class", i64)), classes(k.scalar("total_classes", i64)) {}
};

// The label of a row, which says a class of the whole vocabulary.
struct ShardLabel {
  Scalar ignored, counts;  // i1
  Scalar owned;            // i1: it is a class of this shard
  Scalar local;            // its column in the shard, or -1

  ShardLabel(KernelBuilder& k, const VocabParallelMeta& m, const Scalar& label, const Scalar& ignore_index,
             const Vocabulary& vocabulary) {
    ignored = label == ignore_index;
    counts = !ignored && label >= 0 && label < vocabulary.classes;
    const Scalar column = label - vocabulary.first;
    owned = label >= vocabulary.first && column < m.classes;
    local = where(owned, column, k.constant(-1, i64));
  }
};

// 2^(x log2(e)) where x is no more than 0, or little.
Scalar power_of_e(const Scalar& x) {
  return fast_exp2(x * std::numbers::log2e);
}

// Powers relative to 2^base become relative to e^x when multiplied by this; x is nearly base ln 2.
Scalar from_base_2(const Scalar& base, const Scalar& x) {
  return fast_exp2(fma(-x, std::numbers::log2e, base));
}

// The statistics of all shards.
struct Partials {
  View view;
  Scalar shards, shard;  // how many, and which one is this program's: where smoothing asks

  Partials(KernelBuilder& k, const VocabParallelMeta& m) : view(k.view("partials", f32, {dyn, dyn})) {
    shards = k.scalar("shards", i64);
    if (m.shard_smoothing) shard = k.scalar("shard", i64);
  }
};

// What all shards say of a row.
class MergedRow {
 public:
  MergedRow(KernelBuilder& k, const VocabParallelMeta& m, const Partials& partials, const Scalar& rows,
            const Scalar& index)
      : m_(m), partials_(partials.view), rows_(rows), index_(index.to(i64)) {
    const Scalar zero = k.constant(0.0f, f32);
    auto [top, label] =
        k.for_range(0, partials.shards, 1, unrolled(4), carry(k.constant(-INFINITY, f32), zero),
                    [&](Scalar shard, Scalar top, Scalar label) {
                      return carry(max(top, load(shard, kPartialMaximum)), label + load(shard, kPartialLabel));
                    });
    maximum_ = finite_maximum(max(top, label));
    auto [sum, below] =
        k.for_range(0, partials.shards, 1, unrolled(4), carry(zero, zero), [&](Scalar shard, Scalar sum, Scalar below) {
          const Scalar least = load(shard, kPartialMaximum) - maximum_;
          sum = fma(load(shard, kPartialOthers), power_of_e(least), sum);
          if (m_.smoothing && !m_.shard_smoothing) below = below + below_maximum(shard);
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
  // What multiplies 2^(x log2(e) - base()) for a probability.
  Scalar inverse_total() const { return from_base_2(base(), maximum_) / total; }

  Scalar loss(const Scalar& smoothing, const Scalar& of_class) const {
    const Scalar label = log_total_ + label_below_;
    if (!m_.smoothing) return label;
    return fma(of_class, below_, fma(smoothing, log_total_, (1.0f - smoothing) * label));
  }

 private:
  Scalar load(const Scalar& shard, int column) const { return partials_.load({shard * rows_ + index_, column}); }
  // Sum over a shard's classes of the maximum of all less the logit.
  Scalar below_maximum(const Scalar& shard) const {
    const Scalar distance = maximum_ - finite_maximum(load(shard, kPartialMaximum));
    return fma(load(shard, kPartialClasses), distance, -load(shard, kPartialBelow));
  }

  const VocabParallelMeta& m_;
  View partials_;
  Scalar rows_, index_;
  Scalar maximum_, label_below_, log_total_, below_;
};

void partials_of_row(KernelBuilder& k, const VocabParallelMeta& m, const Arguments& args, const View& partials,
                     const Scalar& index, const ShardLabel& label) {
  const Row row(k, m, args, index);
  const auto store = [&](int column, const ScalarArg& value) { partials.store({index, column}, value); };
  k.if_(
      label.counts,
      [&] {
        const Scalar first = k.constant(0, i32), zero = k.constant(0.0f, f32);
        const Scalar logit = where(label.owned, row.load_one(max(label.local, 0)), zero);
        Tile z;
        if (!m.looped || m.smoothing) z = row.load(first);
        // Near the row's other logits, so that the sum of what they are above it cancels little.
        const Scalar reference = m.smoothing ? finite_maximum(reduce_max(z)) : zero;
        const CrossEntropyRowSums sums =
            m.looped ? row.looped_sums(label.local, reference) : row.sums(z, label.local, reference);
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

// Loss and gradient of a row. `of_class` is the smoothing of each class.
void loss_of_row(KernelBuilder& k, const VocabParallelMeta& m, const Arguments& args, const Partials& partials,
                 const Scalar& of_class, const Scalar& index, const ShardLabel& label) {
  std::optional<Row> row;
  if (m.with_gradient) row.emplace(k, m, args, index);
  const Scalar& smoothing = args.label_smoothing;
  const auto counted = [&] {
    const MergedRow merged(k, m, partials, args.labels.dim(0), index);
    const bool mean = m.reduction == Reduction::mean && !divides_at_the_end(m);
    Scalar scale = mean ? args.counts.load({0}) : k.constant(1.0f, f32);
    if (m.with_loss) args.loss.store({index}, (merged.loss(smoothing, of_class) * scale).to(args.loss.dtype()));
    if (!m.with_gradient) return;
    if (m.with_d_loss) {
      const Scalar each = m.reduction == Reduction::none ? index : k.constant(0, i32);
      scale = scale * args.d_loss.load({each}).to(f32);
    }
    const Scalar power = scale * merged.inverse_total(), base = merged.base();
    Scalar of_label = -merged.others;
    if (m.smoothing) of_label = fma(smoothing, merged.label_power, (smoothing - 1.0f) * merged.others);
    of_label = scale * (of_label / merged.total);
    Scalar lower;  // what smoothing takes from every class
    if (m.smoothing) lower = scale * of_class, of_label = of_label - lower;
    const auto gradient = [&](const Tile& z, const Scalar& b) {
      const Tile p = fast_exp2(base_2(z, -base));
      return row->at_label(b, label.local, of_label, m.smoothing ? fma(p, power, -lower) : p * power);
    };
    const Scalar first = k.constant(0, i32);
    if (!m.looped) return row->store_gradient(first, gradient(row->load(first), first));
    k.for_range(0, row->blocks(), 1, [&](Scalar b) { row->store_gradient(b, gradient(row->load(b), b)); });
  };
  k.if_(label.counts, counted, [&] { fill_row(k, m, args, row ? &*row : nullptr, index, label.ignored); });
}

}  // namespace

void vocab_parallel_cross_entropy(KernelBuilder& k, const VocabParallelMeta& m) {
  const Arguments args(k, m);
  const Vocabulary vocabulary(k);
  const Partials partials(k, m);
  Scalar of_class;
  if (m.smoothing) of_class = k.scalar("smoothing_of_class", f32);
  for_each_row(k, m, args.labels, [&](const Scalar& index, const Scalar& label) {
    loss_of_row(k, m, args, partials, of_class, index, {k, m, label, args.ignore_index, vocabulary});
  });
}

}  // namespace ligerdsl::kernels
