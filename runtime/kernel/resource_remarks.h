// What a kernel's machine code costs that its schedule did not ask for.
#pragma once

#include <algorithm>
#include <vector>

#include "program/artifact.h"
#include "program/gpu_arch.h"
#include "runtime/kernel/kernel.h"

namespace ligerdsl::runtime {

// Spilled registers, and fewer CTAs per SM than min_ctas_per_sm (0: any number will do), unless the compiler has said
// that already. Of no line of the author's.
std::vector<program::Remark> resource_remarks(const program::Artifact& artifact, const KernelResources& resources,
                                              int min_ctas_per_sm);

// CTAs of as many threads, registers per thread and bytes of shared memory that an SM holds, by each of what it has.
struct CtaLimits {
  int threads = 0, ctas = 0, registers = 0, shared = 0;
  int smallest() const { return std::min({threads, ctas, registers, shared}); }
};
CtaLimits cta_limits(const program::GpuArch& arch, int threads, int registers, int64_t shared_bytes);
// The smallest of them: what a driver answers, for where there is none.
int ctas_that_fit(const program::GpuArch& arch, int threads, int registers, int64_t shared_bytes);

}  // namespace ligerdsl::runtime
