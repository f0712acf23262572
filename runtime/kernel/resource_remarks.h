// Remarks on resources of the machine code that differ from what the schedule requests.
#pragma once

#include <algorithm>
#include <vector>

#include "program/artifact.h"
#include "program/gpu_arch.h"
#include "runtime/kernel/kernel.h"

namespace ligerdsl::runtime {

// Returns remarks for spilled registers, serialised wgmma, and fewer CTAs per SM than
// min_ctas_per_sm (0: no minimum). The last remark is omitted if the compiler has already reported
// fewer CTAs. These remarks have no source line.
std::vector<program::Remark> resource_remarks(const program::Artifact& artifact,
                                              const KernelResources& resources,
                                              int min_ctas_per_sm);

// Number of CTAs per SM that each resource of an SM allows.
struct CtaLimits {
  int threads = 0, ctas = 0, registers = 0, shared = 0;
  int smallest() const { return std::min({threads, ctas, registers, shared}); }
};
CtaLimits cta_limits(const program::GpuArch& arch, int threads, int registers,
                     int64_t shared_bytes);
// Returns the smallest of these limits. It equals the driver's occupancy, but needs no driver.
int ctas_that_fit(const program::GpuArch& arch, int threads, int registers, int64_t shared_bytes);

}  // namespace ligerdsl::runtime
