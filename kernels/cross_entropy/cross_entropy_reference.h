// float64 cross-entropy with every option of the C ABI's operation.
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
  double smoothing = 0, lse_square = 0, softcap = 0;  // a softcap of 0 is off
  Values weight;                                      // class weights; empty for none
  Reduce reduction = Reduce::mean;
  Values upstream{1.0};    // one value, or one per row when reduction is none
  double temperature = 0;  // 0: none
  Values d_entropy;        // upstream gradient of each row's entropy; 0 if empty
  Values lse, entropy;     // per row, for the gradient; computed if empty
};

struct CrossEntropyResult {
  Values loss, z_loss, accuracy;  // one value, or one per row when reduction is none
  Values lse, predictions;        // per row
  Values entropy;                 // per row
  Values d_logits;
};

// Returns loss and gradient. A label that is neither a class nor ignore_index makes its row NaN.
CrossEntropyResult cross_entropy_reference(const Values& logits, const std::vector<int64_t>& labels,
                                           const CrossEntropyCase& c);

// Return the reduction and the cross-entropy case of a call.
Reduce reduce_of(const ReferenceCall& call);
CrossEntropyCase cross_entropy_case(const ReferenceCall& call);

}  // namespace ligerdsl::reference
