// z and t are rows of student and teacher logits, divided by temperature. divergence_terms.cpp
// defines the terms l_c and D_c = dl_c / dx_c:
//
//   x = z - log sum e^z, y = t - log sum e^t
//   loss = sum_c l_c(x_c, y_c);  d_c = (D_c - e^(x_c) sum D) / temperature
//   sum: all terms; batchmean: / n, the number of counted rows; mean: / (n V)
//
// There are three passes over both rows: lse, then loss and sum D, then the gradient, if wanted.
// The forward KL needs two passes, because sum D is known to be -1. Each pass runs in the opposite
// direction to the previous one, so that it begins with cached elements. For the last two passes,
// shared memory keeps the part of the rows that fits.
//
// Bytes, s = sizeof(logits_type): 2 n V s read per pass without cache hits, and n V sizeof(type)
// written. A row that fits in a tile is read once. Each pass computes two exponentials per element.
// For jsd, the last two passes also compute a logarithm.
#include "kernels/fused_linear/logit_divergence.h"

#include <numbers>

#include "kernels/core/index_view.h"
#include "kernels/divergence/divergence_terms.h"

namespace ligerdsl::kernels {
namespace {

struct Arguments {
  View row_loss, logits, target_logits, d_logits, labels, d_loss, counts;
  Scalar ignore_index, rows, temperature;

  Arguments(KernelBuilder& k, const LogitDivergenceMeta& m) {
    if (m.with_loss) row_loss = k.view("row_loss", f32, {dyn});
    logits = k.view("logits", m.logits_type(), {dyn, m.classes});
    target_logits = k.view("target_logits", m.logits_type(), {dyn, m.classes});
    if (m.with_gradient)
      d_logits = m.in_place() ? logits : k.view("d_logits", m.type, {dyn, m.classes});
    if (m.has_labels) labels = index_view(k, "labels", m.label_type);
    if (m.with_d_loss) d_loss = k.view("d_loss", m.d_loss_type, {1});
    if (needs_counts(m)) counts = k.view("counts", f32, {4});
    if (m.has_labels) ignore_index = k.scalar("ignore_index", i64);
    if (!m.has_labels && m.reduction != Reduction::sum) rows = k.scalar("rows", i64);
    if (m.tempered) temperature = k.scalar("temperature", f32);
  }
};

DivergenceOptions terms_of(const LogitDivergenceOptions& o) {
  return {.type = o.type, .target_type = o.type, .kind = o.kind, .with_gradient = o.with_gradient};
}

// Blocks of a row of logits, padded with -infinity. load_kept reads a resident row, which two
// passes share.
class Logits {
 public:
  Logits(const LogitDivergenceMeta& m, const View& view, const Scalar& row)
      : m_(m),
        row_(row),
        tiles_(view.partition({squeeze, m.block})),
        kept_(tiles_.resident({row}, options())) {}

  Scalar blocks() const { return kept_.blocks(); }
  Tile load(const Scalar& b) const { return as_lanes(tiles_.load({row_, b}, options())); }
  Tile load_kept(const Scalar& b) const { return as_lanes(kept_.load(b)); }

 private:
  static LoadOptions options() { return {.pad = -INFINITY}; }
  Tile as_lanes(const Tile& t) const { return t.to(f32).reshape(m_.lanes.shape()); }

  const LogitDivergenceMeta& m_;
  Scalar row_;
  Partition tiles_;
  Resident kept_;
};

// Stores the gradient of a row of logits, in the same blocks.
class Gradient {
 public:
  Gradient(const LogitDivergenceMeta& m, const Arguments& args, const Scalar& row)
      : m_(m), row_(row) {
    if (m.with_gradient) tiles_ = args.d_logits.partition({squeeze, m.block});
  }
  void store(const Scalar& b, const Tile& d) const {
    tiles_.store({row_, b}, TileArg(d.to(m_.type).reshape({m_.block})));
  }

 private:
  const LogitDivergenceMeta& m_;
  Scalar row_;
  Partition tiles_;
};

class CountedRow {
 public:
  CountedRow(KernelBuilder& k, const LogitDivergenceMeta& m, const Arguments& args,
             const Logits& student, const Logits& teacher, const Gradient& result,
             const Scalar& row)
      : k_(k),
        m_(m),
        args_(args),
        student_(student),
        teacher_(teacher),
        result_(result),
        row_(row),
        terms_(k, terms_of(m), m.relative_log) {
    scale_ = k.constant(1.0f, f32);
    if (m.tempered) scale_ = 1.0f / args.temperature;
    set_share();
  }

  void run() {
    if (!m_.looped) return run_whole();
    const bool early = m_.with_gradient && m_.kind == Divergence::forward_kl;  // sum D is known
    // The row is read in two passes, not three.
    const bool twice = early || !m_.with_gradient;
    const Scalar n = student_.blocks();
    const Shape lanes = m_.lanes.carried();
    const Tile zeros = k_.zeros(lanes, f32), lowest = k_.full(lanes, -INFINITY, f32);
    auto [sm, ss, tm, ts] =
        k_.for_range(0, n, 1, carry(lowest, zeros, lowest, zeros),
                     [&](Scalar i, Tile sm, Tile ss, Tile tm, Tile ts) {
                       const Scalar b = twice ? i : n - 1 - i;
                       const Tile z = twice ? student_.load_kept(b) : student_.load(b);
                       const Tile t = twice ? teacher_.load_kept(b) : teacher_.load(b);
                       const OnlineOptions options{.scale_log2 = scale_ * std::numbers::log2e};
                       const OnlineSums s = accumulate({sm, ss}, m_.lanes, z, options);
                       const OnlineSums u = accumulate({tm, ts}, m_.lanes, t, options);
                       return carry(s.m, s.s, u.m, u.s);
                     });
    lse_ = log_sum_exp(combine(OnlineSums{sm, ss}));
    target_lse_ = log_sum_exp(combine(OnlineSums{tm, ts}));

    if (!early) {
      auto [losses, slopes, powers] = k_.for_range(
          0, n, 1, carry(zeros, zeros, zeros),
          [&](Scalar i, Tile losses, Tile slopes, Tile powers) {
            const DivergenceTerm term = term_of(twice ? n - 1 - i : i);
            return carry(losses + m_.lanes.sum(term.loss), slopes + m_.lanes.sum(term.gradient),
                         m_.with_gradient ? powers + m_.lanes.sum(term.q) : powers);
          });
      store_loss(losses);
      if (!m_.with_gradient) return;
      slopes_ = sum(slopes) / sum(powers);
    }
    auto [losses] = k_.for_range(0, n, 1, carry(zeros), [&](Scalar i, Tile losses) {
      const Scalar b = n - 1 - i;
      const DivergenceTerm term = term_of(b);
      result_.store(b, gradient(term));
      return carry(early ? losses + m_.lanes.sum(term.loss) : losses);
    });
    if (early) store_loss(losses);
  }

 private:
  // Sets share_ and factor_, which scale a row's loss and gradient.
  void set_share() {
    share_ = k_.constant(1.0f, f32);
    if (m_.reduction != Reduction::sum)
      share_ = m_.has_labels ? args_.counts.load({0}) : 1.0f / args_.rows.to(f32);
    if (m_.reduction == Reduction::mean) share_ = share_ * (1.0 / static_cast<double>(m_.classes));
    factor_ = share_ * scale_;
    if (m_.with_d_loss) factor_ = factor_ * args_.d_loss.load({0}).to(f32);
  }

  void run_whole() {
    const Scalar first = k_.constant(0, i32);
    const Tile z = student_.load(first), t = teacher_.load(first);
    const auto log_sum = [&](const Tile& tile) {
      const OnlineSum none{k_.constant(-INFINITY, f32), k_.constant(0.0f, f32)};
      return log_sum_exp(accumulate(none, tile, {.scale_log2 = scale_ * std::numbers::log2e}));
    };
    lse_ = log_sum(z);
    target_lse_ = log_sum(t);
    const DivergenceTerm term = term_of(z, t);
    store_loss(term.loss);
    if (!m_.with_gradient) return;
    if (m_.kind != Divergence::forward_kl) slopes_ = sum(term.gradient) / sum(term.q);
    result_.store(first, gradient(term));
  }

  Tile logarithm(const Tile& z, const Scalar& lse) const { return fma(z, scale_, -lse); }
  DivergenceTerm term_of(const Tile& z, const Tile& t) {
    x_ = logarithm(z, lse_);
    return terms_(x_, logarithm(t, target_lse_));
  }
  DivergenceTerm term_of(const Scalar& b) {
    return term_of(student_.load_kept(b), teacher_.load_kept(b));
  }

  Tile gradient(const DivergenceTerm& term) const {
    if (m_.kind == Divergence::forward_kl) return (terms_.power(x_) + term.gradient) * factor_;
    return fma(term.q, -slopes_, term.gradient) * factor_;
  }

  void store_loss(const Tile& losses) const {
    if (m_.with_loss) args_.row_loss.store({row_}, sum(losses) * share_);
  }

  KernelBuilder& k_;
  const LogitDivergenceMeta& m_;
  const Arguments& args_;
  const Logits &student_, &teacher_;
  const Gradient& result_;
  Scalar row_;
  DivergenceTerms terms_;
  Scalar scale_, share_, factor_;
  // slopes_ = sum D / sum Q, with Q = e^x. The rounding of lse_ scales every Q by the same factor;
  // dividing by sum Q removes that factor. It would matter in a peaked row, where D and Q sum D
  // nearly cancel.
  Scalar lse_, target_lse_, slopes_;
  Tile x_;
};

}  // namespace

bool needs_counts(const LogitDivergenceOptions& o) {
  return o.has_labels && o.reduction != Reduction::sum;
}

void logit_divergence(KernelBuilder& k, const LogitDivergenceMeta& m) {
  const Arguments args(k, m);
  Scalar row = k.program_id(0);
  assume(row < args.logits.dim(0));  // one program per row
  const Logits student(m, args.logits, row), teacher(m, args.target_logits, row);
  const Gradient result(m, args, row);
  CountedRow counted(k, m, args, student, teacher, result, row);
  if (!m.has_labels) return counted.run();
  Scalar label = args.labels.load({row}).to(i64);
  k.if_(
      label != args.ignore_index, [&] { counted.run(); },
      [&] {
        if (m.with_loss) args.row_loss.store({row}, 0.0f);
        if (!m.with_gradient) return;
        k.for_range(0, student.blocks(), 1,
                    [&](Scalar b) { result.store(b, k.zeros({m.block}, f32)); });
      });
}

}  // namespace ligerdsl::kernels
