// float64 sum that a fused norm normalises.
#pragma once

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

// Returns x + residual, rounded as the call stores it.
inline Values fused_sum(const ReferenceCall& call) {
  Values sum = call["x"];
  for (size_t i = 0; i < sum.size(); ++i)
    sum[i] = call.round_to(call.type("sum"), sum[i] + call["residual"][i]);
  return sum;
}

}  // namespace ligerdsl::reference
