// float64 cross-entropy with every option.
#pragma once

#include <cstdint>

#include "kernels/oracle/values.h"

namespace ligerdsl::oracle {

enum class Reduce { none, mean, sum };

struct CrossEntropyCase {
  int64_t n = 0, classes = 0;
  int64_t ignore_index = -100;
  double smoothing = 0, lse_square = 0, softcap = 0;  // softcap 0: off
  Values weight;                                      // empty: none
  Reduce reduction = Reduce::mean;
  Values upstream{1.0};    // one value, or one per row when reduction is none
  double temperature = 0;  // 0: none
  Values d_entropy;        // upstream gradient of every row's entropy; empty: 0
  Values lse, entropy;     // of every row, given: the gradient is made from these; empty: from the row's own
};

struct CrossEntropyResult {
  Values loss, z_loss, accuracy;  // one value, or one per row when reduction is none
  Values lse, predictions;        // per row
  Values entropy;                 // per row
  Values d_logits;
};

// A label that is no class and not ignore_index makes its row NaN.
CrossEntropyResult cross_entropy_oracle(const Values& logits, const std::vector<int64_t>& labels,
                                        const CrossEntropyCase& c);

// What target_counts counts: 1/n, 1/S, W, n.
inline Values counts_oracle(const std::vector<int64_t>& labels, int64_t ignore_index, const Values& weight) {
  double n = 0, weights = 0, all = 0;
  for (int64_t label : labels) {
    if (label == ignore_index) continue;
    n += 1;
    if (weight.empty()) {
      weights += 1;
    } else if (label >= 0 && label < static_cast<int64_t>(weight.size())) {
      weights += weight[label];
    }
  }
  for (double w : weight) all += w;
  return {n > 0 ? 1 / n : 0, n > 0 ? 1 / weights : 0, all, n};
}

}  // namespace ligerdsl::oracle
