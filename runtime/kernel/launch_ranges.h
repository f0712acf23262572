// Reports the launches of a kernel as ranges (ranges.h). A kernel is wrapped only if a listener
// exists when it is loaded. Launches of other kernels have no additional cost.
#pragma once

#include <memory>

#include "runtime/kernel/kernel.h"

namespace ligerdsl::runtime {

// Returns a wrapper of `kernel` that reports launches, or `kernel` itself without listeners.
std::shared_ptr<LoadedKernel> with_launch_ranges(std::shared_ptr<LoadedKernel> kernel);

}  // namespace ligerdsl::runtime
