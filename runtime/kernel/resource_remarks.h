// Remarks on resources of the machine code that the schedule did not ask for.
#pragma once

#include <algorithm>
#include <vector>

#include "program/artifact.h"
#include "program/gpu_arch.h"
#include "runtime/kernel/kernel.h"

namespace ligerdsl::runtime {

// Returns remarks for spilled registers, serialised wgmma, and fewer CTAs per SM than
// min_ctas_per_sm (0: no minimum) unless the compiler has reported that. These remarks have no line
// of the source.
std::vector<program::Remark> resource_remarks(const program::Artifact& artifact,
                                              const KernelResources& resources,
                                              int min_ctas_per_sm);

// Numbers of such CTAs that an SM holds, as limited by each of its resources.
struct CtaLimits {
  int threads = 0, ctas = 0, registers = 0, shared = 0;
  int smallest() const { return std::min({threads, ctas, registers, shared}); }
};
CtaLimits cta_limits(const program::GpuArch& arch, int threads, int registers,
                     int64_t shared_bytes);
// Returns the smallest of them, which equals the driver's occupancy; for machines without a driver.
int ctas_that_fit(const program::GpuArch& arch, int threads, int registers, int64_t shared_bytes);

}  // namespace ligerdsl::runtime
