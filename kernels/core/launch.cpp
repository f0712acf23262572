#include "kernels/core/launch.h"

#include <stdexcept>

#include "program/gpu_arch.h"

namespace ligerdsl::kernels {

Machine gpu(const std::string& arch, int sms, int ptx_version) {
  const program::GpuArch* found = program::find_gpu_arch(arch);
  if (!found)
    throw std::invalid_argument("unknown GPU architecture '" + arch + "'; use one of " +
                                program::gpu_arch_names());
  Machine machine = *found;
  if (sms > 0) machine.sms = sms;
  if (ptx_version < found->cluster_ptx) machine.max_cluster = 1;
  return machine;
}

Launch library_launch(Size programs, int num_warps) {
  return {.grid = {std::move(programs)}, .num_warps = num_warps, .num_stages = 1};
}

}  // namespace ligerdsl::kernels
