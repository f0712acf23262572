// GPU architectures that the compiler supports, and their properties. The compiler, the launch
// rules and the runtime take all properties of GPUs from this file.
//
// A device's own ligerdsl::Target has properties that the device reports, such as its number of
// SMs.
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
                     kMaxRegisters = 255;  // range of register caps per thread that ptxas honours
inline constexpr int kCacheLineBytes = 128;

// Measured on an H200. Other architectures use the same values until they are measured.
struct GpuTuning {
  // Eighths of a thread's registers for the values that a pipelined loop carries or loads ahead.
  // The rest is for operands, results and addresses.
  int carried_eighths = 3;
  // Sixteenths of a thread's registers that carried values and the tiles of one iteration may fill
  // before a loop uses shared memory.
  int ample_sixteenths = 5;
  // Eighths of a thread's registers that carried values may fill without displacing addresses.
  int crowded_eighths = 4;
  // Quarters of a thread's registers that live tiles may fill while a CTA synchronises.
  int waiting_quarters = 3;
  // Smallest tile, in bytes per thread, that is prefetched while the previous grid ends. Smaller
  // tiles, such as statistics of rows, are not worth the address computation. A kernel with one
  // vector per thread has many CTAs, and only a small part of them waits for the previous grid.
  int least_prefetch_bytes = 32;
  // Largest number of threads per CTA for a prefetch while the CTA waits for the previous grid.
  // Persistent kernels have no limit.
  int most_prefetch_threads = 256;
  // Bytes of a CTA's shared memory that staged tiles leave free for exchanges.
  int unstaged_bytes = 16 * 1024;
};

// Properties of an architecture that only the compiler and the runtime use.
struct GpuCode {
  bool of_devices = true;  // devices of this capability use this row as their compile target

  // PTX versions, times ten, or 0 without support.
  //   first_ptx    lowest version that supports the architecture, at least 8.0
  //   cluster_ptx  lowest version for clusters; 8.6 or later, for `fence.acquire.sync_restrict`
  //   fp8_ptx      lowest version with instructions that convert two fp8 numbers
  //   adds_ptx     lowest version with instructions that add two or four f32 to memory
  int first_ptx = 80, cluster_ptx = 0, fp8_ptx = 0, adds_ptx = 0;

  bool bulk_copies = false;        // bulk copies between global and shared memory (cp.async.bulk)
  bool overlaps_launches = false;  // griddepcontrol
  bool wgmma = false;              // wgmma; code with it runs on no other architecture

  GpuTuning tuning = {};
};

// An architecture with the Target of its most common chip. The driver reports the device's actual
// properties.
struct GpuArch : ligerdsl::Target, GpuCode {
  // Returns true if the architecture and options.ptx_version support fp8 conversions.
  bool converts_fp8(const CompileOptions& options) const;
  // Returns true if the architecture and options.ptx_version support vector reductions of f32 in
  // global memory (red.global.add with .v2 or .v4).
  bool adds_vectors(const CompileOptions& options) const;
  // Returns the size of L2 in bytes, rounded up to a power of two. Larger data does not stay in L2.
  int64_t large_bytes() const;
};

std::span<const GpuArch> gpu_archs();
// Returns null if there is no architecture with this name.
const GpuArch* find_gpu_arch(std::string_view name);
// Returns a device's compile target: its own architecture, or the latest earlier architecture of
// the same major version, whose code the device also runs. Returns null if there is none.
const GpuArch* arch_of_capability(int major, int minor);
// Returns "sm_80, sm_86, ..." for messages.
std::string gpu_arch_names();

// Returns an error if no kernel can run on the GPU with these options, else "". A min_ctas_per_sm
// that an SM cannot reach is no error: the SM then holds the number of CTAs that fit.
std::string refused(const CompileOptions& options);
// Returns the lowest PTX version that supports the options.
int lowest_ptx(const GpuArch& arch, const CompileOptions& options);

}  // namespace ligerdsl::program
