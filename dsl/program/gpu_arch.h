// Target GPU architectures of the compiler, and their properties. All numbers about GPUs in the
// compiler, in launch rules and in the runtime come from here.
//
// Properties that a device reports itself (SMs, the driver's PTX version) are in its
// ligerdsl::Target.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ligerdsl/dsl/target.h"

namespace ligerdsl::program {

struct CompileOptions;

// Limits of all architectures.
inline constexpr int kWarpThreads = ligerdsl::Target::warp_threads;
inline constexpr int kMaxWarps = 32;      // warps per CTA
inline constexpr int kMaxStages = 16;     // stages of a software pipeline
inline constexpr int kMaxCluster = 16;    // CTAs per cluster; GpuArch::max_cluster may be less
inline constexpr int kMaxCtasPerSm = 32;  // CTAs per SM; GpuArch::max_ctas_per_sm may be less
inline constexpr int kMinRegisters = 24,
                     kMaxRegisters = 255;  // 32-bit registers per thread; caps that ptxas honours
inline constexpr int kCacheLineBytes = 128;

// Measured on an H200. Other architectures use the same values until they are measured.
struct GpuTuning {
  // Eighths of a thread's registers that a pipelined loop may carry. The rest is for operands,
  // results and addresses.
  int carried_eighths = 3;
  // Sixteenths of a thread's registers that tiles may fill before prefetch uses shared memory.
  int ample_sixteenths = 5;
  // Eighths of a thread's registers at which carried values leave no space for addresses.
  int crowded_eighths = 4;
  // Quarters of a thread's registers that live tiles may fill while a CTA synchronises.
  int waiting_quarters = 3;
  // Smallest tile, in bytes per thread, that is prefetched while the previous grid ends. Statistics
  // are smaller and not worth their addresses. Kernels with one vector per thread have many CTAs,
  // and only a small part of them waits.
  int least_prefetch_bytes = 32;
  // Largest number of threads per CTA for a prefetch while the CTA waits for the previous grid.
  int most_prefetch_threads = 256;
  // Bytes of a CTA's shared memory that staged tiles leave free.
  int unstaged_bytes = 16 * 1024;
};

// Properties of an architecture that only the compiler and the runtime use.
struct GpuCode {
  bool of_devices = true;  // this name is the compile target of its capability's devices

  // PTX versions, times ten, or 0 without support.
  //   first_ptx    lowest version that knows the architecture, at least 8.0
  //   cluster_ptx  lowest version for clusters: 8.6 or later for fences that restrict acquires
  //   fp8_ptx      lowest version with instructions that convert two fp8 numbers
  //   adds_ptx     lowest version with instructions that add two or four f32 to memory
  int first_ptx = 80, cluster_ptx = 0, fp8_ptx = 0, adds_ptx = 0;

  bool bulk_copies = false;        // bulk copies between global and shared memory (cp.async.bulk)
  bool overlaps_launches = false;  // griddepcontrol
  bool wgmma = false;              // wgmma; code for this architecture runs on no other

  GpuTuning tuning = {};
};

// An architecture with the Target of its most common chip. The driver reports the device's actual
// properties.
struct GpuArch : ligerdsl::Target, GpuCode {
  // Returns true if architecture and driver support fp8 conversion instructions.
  bool converts_fp8(const CompileOptions& options) const;
  // Returns true if architecture and driver can add a vector of f32 to memory with one instruction.
  bool adds_vectors(const CompileOptions& options) const;
  // Returns the size in bytes above which data does not stay in L2.
  int64_t large_bytes() const;
};

std::span<const GpuArch> gpu_archs();
// Returns null if there is no architecture with this name.
const GpuArch* find_gpu_arch(std::string_view name);
// Returns a device's compile target: its own architecture, or the latest earlier one of its
// generation, whose code it also runs. Returns null if there is none.
const GpuArch* arch_of_capability(int major, int minor);
// Returns "sm_80, sm_86, ..." for messages.
std::string gpu_arch_names();

// Returns why no kernel can run with these options on their GPU, or "". A min_ctas_per_sm that an
// SM cannot reach is no error: the SM then holds the number that fits.
std::string refused(const CompileOptions& options);
// Returns the lowest PTX version that supports the options.
int lowest_ptx(const GpuArch& arch, const CompileOptions& options);

}  // namespace ligerdsl::program
