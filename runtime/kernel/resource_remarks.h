// Remarks on machine code resources that differ from the schedule's request.
#pragma once

#include <algorithm>
#include <vector>

#include "program/artifact.h"
#include "program/gpu_arch.h"
#include "runtime/kernel/kernel.h"

namespace ligerdsl::runtime {

// Returns remarks for spilled registers, serialised wgmma, and fewer CTAs per SM than
// min_ctas_per_sm (0 for no minimum) unless the compiler has reported that. These remarks have no
// source line.
std::vector<program::Remark> resource_remarks(const program::Artifact& artifact,
                                              const KernelResources& resources,
                                              int min_ctas_per_sm);

// Number of CTAs that each of an SM's resources allows.
struct CtaLimits {
  int threads = 0, ctas = 0, registers = 0, shared = 0;
  int smallest() const { return std::min({threads, ctas, registers, shared}); }
};
CtaLimits cta_limits(const program::GpuArch& arch, int threads, int registers,
                     int64_t shared_bytes);
// Returns the smallest of these limits, which equals the driver's occupancy. For machines without a
// driver.
int ctas_that_fit(const program::GpuArch& arch, int threads, int registers, int64_t shared_bytes);

}  // namespace ligerdsl::runtime
