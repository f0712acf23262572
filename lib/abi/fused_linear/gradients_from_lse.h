// Plan that computes only gradients of fused_linear_cross_entropy, from the lse of an earlier call.
#pragma once

#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

// Call it for descriptors with with_lse and with_d_loss whose only results are gradients. The
// operation's call passes lse, and entropy if it passes d_entropy. `info` is the operation that
// reports invalid labels.
std::unique_ptr<OpPlan> gradients_from_lse(const ContextRef& context,
                                           const ligerdsl_fused_linear_cross_entropy_desc_t& d,
                                           const OpInfo& info);

}  // namespace ligerdsl::lib
