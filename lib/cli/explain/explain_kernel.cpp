#include "lib/cli/explain/explain_kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "runtime/kernel/resource_remarks.h"

namespace ligerdsl::cli {

namespace {

using runtime::KernelResources;

Json occupancy_json(const program::GpuArch& arch, const KernelResources& resources) {
  const runtime::CtaLimits limits =
      runtime::cta_limits(arch, resources.threads, resources.registers, resources.shared_bytes);
  const std::vector<std::pair<std::string, int>> named = {{"threads", limits.threads},
                                                          {"CTAs", limits.ctas},
                                                          {"registers", limits.registers},
                                                          {"shared memory", limits.shared}};
  Json by = Json::object();
  std::vector<std::string> least;
  for (const auto& [name, ctas] : named) {
    by[name] = ctas;
    if (ctas == limits.smallest()) least.push_back(name);
  }
  // The number that the driver reports may be smaller, for example if clusters do not fill the GPU.
  const bool driver = resources.ctas_per_sm < limits.smallest();
  const int threads = resources.ctas_per_sm * resources.threads;
  return {{"ctas_per_sm", resources.ctas_per_sm},
          {"threads_per_sm", threads},
          {"of_threads", arch.threads_per_sm},
          {"percent", 100.0 * threads / arch.threads_per_sm},
          {"limited_by", driver ? "the driver" : fmt::format("{}", fmt::join(least, " and "))},
          {"limits", by}};
}

Json launch_json(const program::CompileOptions& options) {
  return {{"num_warps", options.num_warps},
          {"num_ctas", options.num_ctas},
          {"num_stages", options.num_stages},
          {"min_ctas_per_sm", options.min_ctas_per_sm},
          {"max_registers", options.max_registers}};
}

std::string occupancy_text(const Json& o) {
  std::string limits;
  for (const auto& [name, ctas] : o["limits"].items())
    limits += fmt::format("{}{} {}", limits.empty() ? "" : ", ", name, ctas.get<int>());
  return fmt::format("{} per SM, {} of {} threads ({:.0f} %), limited by {} (CTAs that fit: {})\n",
                     counted(o["ctas_per_sm"].get<int>(), "CTA", "CTAs"),
                     o["threads_per_sm"].get<int>(), o["of_threads"].get<int>(),
                     o["percent"].get<double>(), o["limited_by"].get<std::string>(), limits);
}

}  // namespace

Json explained_kernel(const CompiledKernel& kernel) {
  const program::Artifact& artifact = kernel.artifact;
  Json result = {{"kernel", kernel.name}, {"arch", artifact.arch}};
  if (artifact.target == program::Target::cpu) {
    result["resources"] = {{"scratch_bytes", artifact.arena_bytes},
                           {"code_bytes", artifact.code.size()}};
    result["remarks"] = json_of(kernel.remarks);
    return result;
  }
  result["launch"] = launch_json(kernel.options);
  result["resources"] = {
      {"threads", artifact.threads},
      {"cluster", artifact.cluster},
      {"shared_bytes", kernel.resources ? kernel.resources->shared_bytes : artifact.shared_bytes}};
  if (kernel.resources) {
    result["resources"]["registers"] = kernel.resources->registers;
    result["resources"]["spill_bytes"] = kernel.resources->spill_bytes;
    const program::GpuArch* arch = program::find_gpu_arch(artifact.arch);
    if (arch && kernel.resources->ctas_per_sm > 0)
      result["occupancy"] = occupancy_json(*arch, *kernel.resources);
  }
  result["remarks"] = json_of(kernel.remarks);
  return result;
}

void print_kernel(const Json& kernel) {
  const Json& r = kernel["resources"];
  std::string text = fmt::format("\nkernel {} for {}\n", kernel["kernel"].get<std::string>(),
                                 kernel["arch"].get<std::string>());
  const auto bytes = [&](const char* name) { return format_bytes(r[name].get<double>()); };
  if (r.contains("code_bytes")) {
    text += fmt::format("resources: {} of scratch memory per worker, {} of code\n",
                        bytes("scratch_bytes"), bytes("code_bytes"));
  } else {
    text += "launch:";
    for (const auto& [name, value] : kernel["launch"].items())
      text += fmt::format(" {}={}", name, value.get<int>());
    text += "\n";
    text += fmt::format("resources: {} threads per CTA, {} of shared memory",
                        r["threads"].get<int>(), bytes("shared_bytes"));
    if (r.contains("registers"))
      text += fmt::format(", {} registers per thread, {} spilled", r["registers"].get<int>(),
                          bytes("spill_bytes"));
    text += "\n";
  }
  if (kernel.contains("occupancy")) text += "occupancy: " + occupancy_text(kernel["occupancy"]);
  print_text(text);
  if (kernel["remarks"].empty()) print_text("remarks: none\n");
  for (const Json& remark : kernel["remarks"]) {
    const program::Remark shown = {.file = remark["file"],
                                   .line = remark["line"],
                                   .column = remark["column"],
                                   .pass = remark["pass"],
                                   .text = remark["text"],
                                   .id = remark["id"]};
    print_text(to_string(shown) + "\n");
  }
  if (!kernel["remarks"].empty())
    print_text(
        "docs/reference/remarks.md#ID says what to change; ID is in the last brackets of a "
        "remark\n");
}

}  // namespace ligerdsl::cli
