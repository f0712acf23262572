// Reports the launches of a kernel as ranges (ranges.h). Only a kernel that is loaded while a
// listener exists is wrapped, so launches of other kernels have no cost.
#pragma once

#include <memory>

#include "runtime/kernel/kernel.h"

namespace ligerdsl::runtime {

// Returns a kernel that reports its launches, or `kernel` itself without listeners.
std::shared_ptr<LoadedKernel> with_launch_ranges(std::shared_ptr<LoadedKernel> kernel);

}  // namespace ligerdsl::runtime
