#include "program/gpu_arch.h"

#include <algorithm>
#include <array>
#include <bit>

#include "program/options.h"

namespace ligerdsl::program {
namespace {

constexpr int64_t KB = 1024, MB = 1024 * KB;

constexpr GpuArch named(GpuArch arch, std::string_view name) {
  std::fill(std::copy(name.begin(), name.end(), arch.name), std::end(arch.name), '\0');
  return arch;
}

// Returns the same chip under another name that is not the compile target of a device.
constexpr GpuArch with_name(const GpuArch& arch, std::string_view name) {
  GpuArch other = named(arch, name);
  other.of_devices = false;
  other.wgmma = arch.wgmma && name.ends_with('a');
  return other;
}

// Adds the properties that all chips share. A CTA can use all shared memory of an SM except the 1
// KB that CUDA reserves per CTA.
constexpr ligerdsl::Target chip(ligerdsl_target_t target) {
  target.gpu = 1;
  target.registers_per_sm = 64 * 1024;
  target.max_registers = kMaxRegisters;
  target.vector_bytes = 16;
  target.shared_reserved = 1 * KB;
  target.shared_per_cta = target.shared_per_sm - target.shared_reserved;
  target.exchange_bytes = 4 * KB;  // this and the next value: measured on an H200
  target.shared_not_rows = 28 * KB;
  return ligerdsl::Target(target);
}

// The chips of the rows: A100, RTX A6000, Orin, L40S, H200, B200, B300, RTX PRO 6000. Sources:
// * SM and CTA: CUDA Programming Guide 13, "Compute Capabilities", technical specifications, as in
//   libcu++'s cuda/__device/arch_traits.h. (The 32 CTAs and 128 KB of the Blackwell Tuning Guide,
//   1.4.1.1, do not apply to 12.0.)
// * Clusters: Hopper Tuning Guide, 1.4.1.3, and Blackwell Tuning Guide, 1.4.1.2: 8, and 16 on
//   request on 9.0 and 10.0.
// * PTX: PTX ISA 9.0, "Release Notes". ptxas 13.0 accepts each target from this version on.
// * SMs and L2: published device properties of H200, B200 and RTX PRO 6000. For other chips, and
//   for clusters on 12.0, only secondary sources were found.
//
// GpuTest.AttributesMatchTheTableOfArchitectures compares the row of the present GPU with its
// device properties. Only the row sm_90a is verified, on an H200.
constexpr GpuArch kSm80{chip({.name = "sm_80",
                              .capability = 80,
                              .sms = 108,
                              .threads_per_sm = 2048,
                              .max_ctas_per_sm = 32,
                              .max_cluster = 1,
                              .shared_per_sm = 164 * KB,
                              .l2_bytes = 40 * MB}),
                        {}};
constexpr GpuArch kSm86{chip({.name = "sm_86",
                              .capability = 86,
                              .sms = 84,
                              .threads_per_sm = 1536,
                              .max_ctas_per_sm = 16,
                              .max_cluster = 1,
                              .shared_per_sm = 100 * KB,
                              .l2_bytes = 6 * MB}),
                        {}};
constexpr GpuArch kSm87{chip({.name = "sm_87",
                              .capability = 87,
                              .sms = 16,
                              .threads_per_sm = 1536,
                              .max_ctas_per_sm = 16,
                              .max_cluster = 1,
                              .shared_per_sm = 164 * KB,
                              .l2_bytes = 4 * MB}),
                        {}};
constexpr GpuArch kSm89{chip({.name = "sm_89",
                              .capability = 89,
                              .sms = 142,
                              .threads_per_sm = 1536,
                              .max_ctas_per_sm = 24,
                              .max_cluster = 1,
                              .shared_per_sm = 100 * KB,
                              .l2_bytes = 96 * MB}),
                        {.fp8_ptx = 81}};
constexpr GpuArch kSm90a{chip({.name = "sm_90a",
                               .capability = 90,
                               .sms = 132,
                               .threads_per_sm = 2048,
                               .max_ctas_per_sm = 32,
                               .max_cluster = 16,
                               .shared_per_sm = 228 * KB,
                               .l2_bytes = 60 * MB}),
                         {.first_ptx = 80,
                          .cluster_ptx = 86,
                          .fp8_ptx = 81,
                          .adds_ptx = 81,
                          .bulk_copies = true,
                          .overlaps_launches = true,
                          .wgmma = true}};
constexpr GpuArch kSm100{chip({.name = "sm_100",
                               .capability = 100,
                               .sms = 148,
                               .threads_per_sm = 2048,
                               .max_ctas_per_sm = 32,
                               .max_cluster = 16,
                               .shared_per_sm = 228 * KB,
                               .l2_bytes = 126 * MB}),
                         {.first_ptx = 86,
                          .cluster_ptx = 86,
                          .fp8_ptx = 86,
                          .adds_ptx = 86,
                          .bulk_copies = true,
                          .overlaps_launches = true}};
constexpr GpuArch kSm103 = [] {
  GpuArch arch = named(kSm100, "sm_103");
  arch.capability = 103;
  arch.first_ptx = arch.cluster_ptx = arch.fp8_ptx = arch.adds_ptx = 88;
  return arch;
}();
constexpr GpuArch kSm120{chip({.name = "sm_120",
                               .capability = 120,
                               .sms = 188,
                               .threads_per_sm = 1536,
                               .max_ctas_per_sm = 24,
                               .max_cluster = 8,
                               .shared_per_sm = 100 * KB,
                               .l2_bytes = 128 * MB}),
                         {.first_ptx = 87,
                          .cluster_ptx = 87,
                          .fp8_ptx = 87,
                          .adds_ptx = 87,
                          .bulk_copies = true,
                          .overlaps_launches = true}};

// Sorted by capability.
constexpr std::array kArchs = {kSm80,
                               kSm86,
                               kSm87,
                               kSm89,
                               with_name(kSm90a, "sm_90"),
                               kSm90a,
                               kSm100,
                               with_name(kSm100, "sm_100a"),
                               kSm103,
                               kSm120,
                               with_name(kSm120, "sm_120a")};

bool is_power_of_two(int n) {
  return n > 0 && std::has_single_bit(static_cast<unsigned>(n));
}

std::string ptx_text(int version) {
  return "PTX " + std::to_string(version / 10) + "." + std::to_string(version % 10);
}

std::string got(int number) {
  return ", got " + std::to_string(number);
}

}  // namespace

bool GpuArch::converts_fp8(const CompileOptions& options) const {
  return fp8_ptx > 0 && fp8_ptx <= options.ptx_version;
}

bool GpuArch::adds_vectors(const CompileOptions& options) const {
  return adds_ptx > 0 && adds_ptx <= options.ptx_version;
}

int64_t GpuArch::large_bytes() const {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(l2_bytes)));
}

std::span<const GpuArch> gpu_archs() {
  return kArchs;
}

const GpuArch* find_gpu_arch(std::string_view name) {
  const auto found = std::find_if(kArchs.begin(), kArchs.end(),
                                  [&](const GpuArch& arch) { return arch.name == name; });
  return found == kArchs.end() ? nullptr : &*found;
}

const GpuArch* arch_of_capability(int major, int minor) {
  const GpuArch* best = nullptr;
  for (const GpuArch& arch : kArchs) {
    if (arch.of_devices && arch.capability / 10 == major && arch.capability % 10 <= minor)
      best = &arch;
  }
  return best;
}

std::string gpu_arch_names() {
  std::string text;
  for (const GpuArch& arch : kArchs) text += (text.empty() ? "" : ", ") + std::string(arch.name);
  return text;
}

int lowest_ptx(const GpuArch& arch, const CompileOptions& options) {
  return options.num_ctas > 1 ? std::max(arch.first_ptx, arch.cluster_ptx) : arch.first_ptx;
}

std::string refused(const CompileOptions& options) {
  const GpuArch* arch = find_gpu_arch(options.arch);
  if (!arch)
    return "unknown GPU architecture '" + options.arch + "'; expected one of " + gpu_arch_names();
  const std::string name(arch->name);
  if (const int ptx = lowest_ptx(*arch, options); ptx > options.ptx_version)
    return name + (ptx > arch->first_ptx ? " with clusters" : "") + " needs " + ptx_text(ptx) +
           ", but the driver accepts up to " + ptx_text(options.ptx_version) +
           "; update the NVIDIA driver";
  if (!is_power_of_two(options.num_warps) || options.num_warps > kMaxWarps)
    return "num_warps must be a power of two from 1 to 32" + got(options.num_warps);
  if (!is_power_of_two(options.num_ctas) || options.num_ctas > kMaxCluster)
    return "num_ctas must be 1, 2, 4, 8 or 16" + got(options.num_ctas);
  const std::string ctas = "num_ctas is " + std::to_string(options.num_ctas) + ", but " + name;
  if (options.num_ctas > 1 && arch->max_cluster == 1)
    return ctas + " has no clusters of CTAs (sm_90 and later have); use num_ctas = 1";
  if (options.num_ctas > arch->max_cluster)
    return ctas + " has clusters of at most " + std::to_string(arch->max_cluster) +
           " CTAs; use num_ctas = " + std::to_string(arch->max_cluster) + " or less";
  if (options.max_registers != 0 &&
      (options.max_registers < kMinRegisters || options.max_registers > arch->max_registers))
    return "max_registers must be 24 to 255, or 0 for no cap" + got(options.max_registers);
  if (options.min_ctas_per_sm < 0 || options.min_ctas_per_sm > kMaxCtasPerSm)
    return "min_ctas_per_sm must be 1 to 32, or 0 for no minimum" + got(options.min_ctas_per_sm);
  return "";
}

}  // namespace ligerdsl::program
