// The gradients of fused_linear_cross_entropy alone, from what an earlier call of it left of every row.
#pragma once

#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

// For calls that have d.with_lse and d_loss, and no results but gradients; lse, and entropy beside d_entropy, are given.
// `info`: the operation that reports labels.
std::unique_ptr<OpPlan> gradients_from_lse(const ContextRef& context,
                                           const ligerdsl_fused_linear_cross_entropy_desc_t& d, const OpInfo& info);

}  // namespace ligerdsl::lib
