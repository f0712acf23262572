// Returns the options with which the launcher compiles a kernel of the library, for aligned
// arguments that share no memory.
#pragma once

#include "kernels/core/compile_options.h"
#include "kernels/core/launch.h"
#include "ptx_kernel.h"

namespace ligerdsl::testing {

inline program::CompileOptions optionsOfStep(const kernels::Step& step, const std::string& arch,
                                             int ptx) {
  program::CompileOptions base;
  base.target = program::Target::nvptx;
  base.arch = arch;
  base.ptx_version = ptx;
  return kernels::compile_options(base, step.program, step.launch, kernels::Variant::aligned,
                                  kernels::all_disjoint(step.program));
}

}  // namespace ligerdsl::testing
