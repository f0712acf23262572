// A description as the line of a file that `ligerdsl cache warm` takes.
#pragma once

#include <string>

#include "lib/src/context.h"
#include "lib/src/op_info.h"

namespace ligerdsl::lib {

// {"operation": "softmax_forward", "target": "sm_90a", "ptx": "9.0", "multiprocessors": 132, "n_cols": 4096, ...}:
// every field of the description, and of the context's device what decides which kernels a plan loads.
std::string warm_line(const OpInfo& info, const void* desc, Context& context);

}  // namespace ligerdsl::lib
