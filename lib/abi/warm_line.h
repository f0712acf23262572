// A description as a line of a `ligerdsl cache warm` file.
#pragma once

#include <string>

#include "lib/abi/context.h"
#include "lib/abi/op_info.h"

namespace ligerdsl::lib {

// Returns every field of the description, and the properties of the context's device that decide
// which kernels a plan loads:
// `{"operation": "softmax_forward", "target": "sm_90a", "ptx": "9.0", "multiprocessors": 132,
// "n_cols": 4096, ...}`
std::string warm_line(const OpInfo& info, const void* desc, Context& context);

}  // namespace ligerdsl::lib
