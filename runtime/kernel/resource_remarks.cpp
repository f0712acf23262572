#include "runtime/kernel/resource_remarks.h"

#include <algorithm>
#include <string>

#include "program/remarks.h"

namespace ligerdsl::runtime {

namespace {

using program::make_remark;
using program::RemarkId;

bool says_fewer_ctas(const program::Remark& remark) {
  return remark.id == id_of(RemarkId::min_ctas_exceed_threads) ||
         remark.id == id_of(RemarkId::min_ctas_exceed_shared_memory);
}

// Returns true if the kernel has local variables, such as the values of device_print. Its local
// memory then contains more than spills.
bool has_local_variables(const program::Artifact& artifact) {
  return artifact.code.find("__local_depot") != std::string::npos;
}

std::string registers_of(const KernelResources& resources) {
  return std::to_string(resources.registers) + " registers";
}

}  // namespace

std::vector<program::Remark> resource_remarks(const program::Artifact& artifact,
                                              const KernelResources& resources,
                                              int min_ctas_per_sm) {
  std::vector<program::Remark> remarks;
  if (resources.spill_bytes > 0 && !has_local_variables(artifact))
    remarks.push_back(make_remark(RemarkId::spills,
                                  "each thread spills " + std::to_string(resources.spill_bytes) +
                                      " bytes to local memory in addition to its " +
                                      registers_of(resources) +
                                      "; use more warps or smaller tiles, or allow more registers "
                                      "(max_registers, min_ctas_per_sm)"));
  if (resources.log.find("wgmma.mma_async instructions are serialized") != std::string::npos)
    remarks.push_back(make_remark(
        RemarkId::wgmma_serialised,
        "wgmma: matmuls do not overlap: the assembler has serialised them, mostly for lack "
        "of registers; use more warps or smaller tiles"));
  const bool fewer = resources.ctas_per_sm > 0 && resources.ctas_per_sm < min_ctas_per_sm;
  if (fewer && std::none_of(artifact.remarks.begin(), artifact.remarks.end(), says_fewer_ctas))
    remarks.push_back(make_remark(
        RemarkId::min_ctas_exceed_resources,
        "min_ctas_per_sm = " + std::to_string(min_ctas_per_sm) + " is not reached: an SM holds " +
            std::to_string(resources.ctas_per_sm) + " CTAs of " +
            std::to_string(resources.threads) + " threads with " + registers_of(resources) +
            " each and " + std::to_string(resources.shared_bytes) +
            " bytes of shared memory; use fewer warps, smaller tiles or a smaller max_registers"));
  return remarks;
}

CtaLimits cta_limits(const program::GpuArch& arch, int threads, int registers,
                     int64_t shared_bytes) {
  constexpr int kParts = 4,
                kUnit =
                    256;  // each part of an SM has its own registers, allocated in units of kUnit
  const int warps = std::max(1, threads / program::kWarpThreads);
  const int of_warp = (std::max(1, registers) * program::kWarpThreads + kUnit - 1) / kUnit * kUnit;
  return {.threads = arch.threads_per_sm / (warps * program::kWarpThreads),
          .ctas = arch.max_ctas_per_sm,
          .registers = kParts * (arch.registers_per_sm / kParts / of_warp) / warps,
          .shared = static_cast<int>(arch.shared_per_sm / (shared_bytes + arch.shared_reserved))};
}

int ctas_that_fit(const program::GpuArch& arch, int threads, int registers, int64_t shared_bytes) {
  return cta_limits(arch, threads, registers, shared_bytes).smallest();
}

}  // namespace ligerdsl::runtime
