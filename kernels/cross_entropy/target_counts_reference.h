// float64 counts and weights of labels.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/reference_values.h"

namespace ligerdsl::reference {

// Returns 1/n, 1/S, W and n. n is the number of rows that are not ignored, S the total weight of
// their labels, and W the total weight of all classes.
inline Values counts_reference(const std::vector<int64_t>& labels, int64_t ignore_index,
                               const Values& weight) {
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

}  // namespace ligerdsl::reference
