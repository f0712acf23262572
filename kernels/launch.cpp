#include "kernels/launch.h"

#include <stdexcept>

namespace ligerdsl::kernels {

Machine gpu(const std::string& arch, int sms, int ptx_version) {
  const program::GpuArch* found = program::find_gpu_arch(arch);
  if (!found) throw std::invalid_argument("no GPU architecture '" + arch + "'; there are " + program::gpu_arch_names());
  return {.arch = found,
          .sms = sms > 0 ? sms : found->usual_sms,
          .max_cluster = ptx_version >= found->cluster_ptx ? found->max_cluster : 1};
}

Launch library_launch(Size programs, int num_warps) {
  return {.grid = {std::move(programs)}, .num_warps = num_warps, .num_stages = 1};
}

}  // namespace ligerdsl::kernels
