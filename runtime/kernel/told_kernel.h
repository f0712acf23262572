// A kernel whose launches are told (ranges.h). Only where somebody listens is a kernel wrapped, so launches of others
// do not even ask.
#pragma once

#include <memory>

#include "runtime/kernel/kernel.h"

namespace ligerdsl::runtime {

// `kernel` itself where nobody listens.
std::shared_ptr<LoadedKernel> telling_launches(std::shared_ptr<LoadedKernel> kernel);

}  // namespace ligerdsl::runtime
