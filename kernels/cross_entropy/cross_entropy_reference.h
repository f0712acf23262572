// float64 cross-entropy with every option.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/reference_values.h"

namespace ligerdsl::reference {

class ReferenceCall;

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
CrossEntropyResult cross_entropy_reference(const Values& logits, const std::vector<int64_t>& labels,
                                           const CrossEntropyCase& c);

// Return what the description of a loss and its tensors say.
Reduce reduce_of(const ReferenceCall& call);
CrossEntropyCase cross_entropy_case(const ReferenceCall& call);

}  // namespace ligerdsl::reference
