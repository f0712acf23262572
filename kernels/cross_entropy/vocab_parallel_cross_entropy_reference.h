// float64 cross-entropy over a sharded vocabulary.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/core/reference_values.h"
#include "kernels/cross_entropy/cross_entropy_reference.h"
#include "kernels/cross_entropy/target_counts_reference.h"

namespace ligerdsl::reference {

// One shard of the vocabulary.
struct VocabParallelCase {
  int64_t n = 0;
  int64_t classes = 0, first_class = 0, total_classes = 0;
  int64_t ignore_index = -100;
  double smoothing = 0;
  bool shard_smoothing = false;  // smooth over the shard's own classes
  bool smooth_others = false;    // the classes other than the label share label_smoothing
  int64_t shard = 0;             // index of this shard in the partials
  Reduce reduction = Reduce::none;
  Values upstream{1.0};  // one value, or one per row when reduction is none

  bool is_class(int64_t label) const { return label >= 0 && label < total_classes; }
  bool owns(int64_t label) const { return label >= first_class && label < first_class + classes; }
  int64_t columns() const { return smoothing > 0 ? 5 : 3; }
  // Number of classes that smoothing covers.
  double smoothed() const { return static_cast<double>(shard_smoothing ? classes : total_classes); }
  // Weight of the mean over the smoothed classes in the loss.
  double share() const {
    return smooth_others ? smoothing * smoothed() / (smoothed() - 1) : smoothing;
  }
};

// Returns three values for each row, or five with smoothing:
//   0: maximum
//   1: sum of e^(x - maximum) except the label's
//   2: the label's logit, or 0
//   3: sum of x - maximum (only with smoothing)
//   4: number of classes (only with smoothing)
inline Values vocab_parallel_partials_reference(const Values& logits,
                                                const std::vector<int64_t>& labels,
                                                const VocabParallelCase& c) {
  Values out(c.n * c.columns(), 0.0);
  for (int64_t i = 0; i < c.n; ++i) {
    const double* x = &logits[i * c.classes];
    double* to = &out[i * c.columns()];
    if (labels[i] == c.ignore_index) continue;
    if (!c.is_class(labels[i])) {
      std::fill_n(to, c.columns(), std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    const double top = *std::max_element(x, x + c.classes);
    const double base = std::isinf(top) ? 0 : top;
    to[0] = top;
    for (int64_t j = 0; j < c.classes; ++j) {
      if (j + c.first_class != labels[i]) to[1] += std::exp(x[j] - base);
      if (c.columns() == 5) to[3] += x[j] - base;
    }
    if (c.owns(labels[i])) to[2] = x[labels[i] - c.first_class];
    if (c.columns() == 5) to[4] = static_cast<double>(c.classes);
  }
  return out;
}

struct VocabParallelResult {
  Values loss;  // one value, or one per row when reduction is none
  Values d_logits;
};

// `partials` has the statistics of all shards, one shard after the other. `logits` has only this
// shard.
inline VocabParallelResult vocab_parallel_reference(const Values& partials, const Values& logits,
                                                    const std::vector<int64_t>& labels,
                                                    const VocabParallelCase& c) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), a = c.share(), k = c.smoothed();
  const int64_t shards = c.n == 0 ? 0 : static_cast<int64_t>(partials.size()) / (c.n * c.columns());
  const double mean =
      c.reduction == Reduce::mean ? counts_reference(labels, c.ignore_index, {})[0] : 1;
  const bool each = c.reduction == Reduce::none;
  VocabParallelResult out{.loss = Values(each ? c.n : 1), .d_logits = Values(logits.size())};
  for (int64_t i = 0; i < c.n; ++i) {
    if (labels[i] == c.ignore_index) continue;
    const auto part = [&](int64_t shard, int column) {
      return partials[(shard * c.n + i) * c.columns() + column];
    };
    double top = -std::numeric_limits<double>::infinity(), label = 0, total = 0, below = 0;
    for (int64_t s = 0; s < shards; ++s) label += part(s, 2), top = std::max(top, part(s, 0));
    top = std::max(top, label);
    for (int64_t s = 0; s < shards; ++s) {
      if (part(s, 1) != 0) total += part(s, 1) * std::exp(part(s, 0) - top);
      if (c.smoothing == 0 || (c.shard_smoothing && s != c.shard)) continue;
      below += part(s, 4) * (top - (std::isinf(part(s, 0)) ? 0 : part(s, 0))) - part(s, 3);
    }
    total += std::exp(label - top);
    const double log_total = std::log(total), nll = top - label + log_total;
    const bool bad = !c.is_class(labels[i]);
    const double loss = bad ? nan : a == 0 ? nll : (1 - a) * nll + a * (log_total + below / k);
    out.loss[each ? i : 0] += loss * mean;
    const double scale = bad ? nan : mean * c.upstream[each && c.upstream.size() > 1 ? i : 0];
    for (int64_t j = 0; j < (logits.empty() ? 0 : c.classes); ++j) {
      const bool hit = j + c.first_class == labels[i];  // the partials have the label's logit, too
      const double p = std::exp((hit ? label : logits[i * c.classes + j]) - top) / total;
      out.d_logits[i * c.classes + j] = scale * (p - a / k - (hit ? 1 - a : 0));
    }
  }
  return out;
}

}  // namespace ligerdsl::reference
