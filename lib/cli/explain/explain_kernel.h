// For `ligerdsl explain`: what a kernel's machine code uses, how many of its CTAs an SM holds and what limits them.
#pragma once

#include <vector>

#include "lib/cli/kernels/compiled_kernel.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

Json explained_kernel(const CompiledKernel& kernel);

void print_kernel(const Json& kernel);

}  // namespace ligerdsl::cli
