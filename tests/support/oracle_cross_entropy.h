// float64 cross-entropy with every option.
#pragma once

#include <cstdint>

#include "tests/support/tensor.h"

namespace ligerdsl::test {

enum class Reduce { none, mean, sum };

struct CrossEntropyCase {
  int64_t n = 0, classes = 0;
  int64_t ignore_index = -100;
  double smoothing = 0, lse_square = 0, softcap = 0;  // softcap 0: off
  Values weight;                                      // empty: none
  Reduce reduction = Reduce::mean;
  Values upstream{1.0};  // one value, or one per row when reduction is none
};

struct CrossEntropyResult {
  Values loss, z_loss, accuracy;  // one value, or one per row when reduction is none
  Values lse, predictions;        // per row
  Values d_logits;
};

// A label that is no class and not ignore_index makes its row NaN.
CrossEntropyResult cross_entropy_oracle(const Values& logits, const std::vector<int64_t>& labels,
                                        const CrossEntropyCase& c);

}  // namespace ligerdsl::test
