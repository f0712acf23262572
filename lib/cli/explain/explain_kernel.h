// Resources of a kernel's machine code, its CTAs per SM, and the resource that limits them, for
// `ligerdsl explain`.
#pragma once

#include <vector>

#include "lib/cli/kernels/compiled_kernel.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

Json explained_kernel(const CompiledKernel& kernel);

void print_kernel(const Json& kernel);

}  // namespace ligerdsl::cli
