// The GPU architectures that the compiler emits code for, and what is known of each: the one place for the numbers of a
// GPU, for the compiler, for the launch rules of kernels and for the runtime.
//
// What a device says of itself (SMs, the driver's PTX version) is not here but in its ligerdsl::Target.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ligerdsl/dsl/target.h"

namespace ligerdsl::program {

struct CompileOptions;

// Of every architecture.
inline constexpr int kWarpThreads = ligerdsl::Target::warp_threads;
inline constexpr int kMaxWarps = 32;                           // of a CTA
inline constexpr int kMaxStages = 16;                          // of a software pipeline
inline constexpr int kMaxCluster = 16;                         // CTAs of a cluster; GpuArch::max_cluster may be less
inline constexpr int kMaxCtasPerSm = 32;                       // GpuArch::max_ctas_per_sm may be less
inline constexpr int kMinRegisters = 24, kMaxRegisters = 255;  // of a thread, of 32 bits: caps that ptxas honours
inline constexpr int kCacheLineBytes = 128;

// What was measured, on an H200, and serves the other architectures until it is measured there.
struct GpuTuning {
  int carried_eighths = 3;          // of a thread's registers, that a pipelined loop may carry: the rest is for
                                    // operands, results and addresses
  int ample_sixteenths = 5;         // of them that tiles wait in for their iteration, rather than in shared memory
  int crowded_eighths = 4;          // of them that a loop carries, so that addresses have no room beside
  int waiting_quarters = 3;         // of them that tiles may fill while a CTA meets
  int least_prefetch_bytes = 32;    // of a thread, of tiles that are asked for while the grid before ends: statistics
                                    // are not worth their addresses, and kernels with one vector per thread have so
                                    // many CTAs that those that wait are a small part
  int most_prefetch_threads = 256;  // of CTAs that ask for tiles while they wait for the grid before
  int unstaged_bytes = 16 * 1024;   // of a CTA's shared memory, beside staged tiles
};

// What only the compiler and the runtime ask about an architecture.
struct GpuCode {
  bool of_devices = true;  // devices of this capability are compiled for under this name, not under another

  // PTX versions, times ten. The lowest that knows the architecture, 8.0 at least; with clusters: what a fence of a
  // cluster acquires is restricted from 8.6 on; with its conversions of fp8, two numbers by one instruction (0: none);
  // with additions to memory of two or four f32 by one (0: none).
  int first_ptx = 80, cluster_ptx = 0, fp8_ptx = 0, adds_ptx = 0;

  bool bulk_copies = false;        // between global and shared memory, asynchronous
  bool overlaps_launches = false;  // griddepcontrol
  bool wgmma = false;              // products of four warps from shared memory; of code for this architecture alone

  GpuTuning tuning = {};
};

// The Target of the chip that is met most often; what a device has, its driver says.
struct GpuArch : ligerdsl::Target, GpuCode {
  // Whether kernels may use its conversions of fp8: the driver knows them.
  bool converts_fp8(const CompileOptions& options) const;
  // Whether they may add vectors of f32 to memory by one instruction.
  bool adds_vectors(const CompileOptions& options) const;
  // What is larger does not stay in the second-level cache.
  int64_t large_bytes() const;
};

std::span<const GpuArch> gpu_archs();
// Null if there is none of that name.
const GpuArch* find_gpu_arch(std::string_view name);
// What a device of this capability is compiled for: its own architecture or the latest before it of its generation,
// whose code it runs too. Null: none.
const GpuArch* arch_of_capability(int major, int minor);
// "sm_80, sm_86, ..." for messages.
std::string gpu_arch_names();

// Why no kernel can run with these options on the GPU that they name; empty: nothing is wrong with them. Numbers that
// ask for less than they seem to are not: an SM that holds fewer CTAs than min_ctas_per_sm holds as many as it can.
std::string refused(const CompileOptions& options);
// The lowest PTX version that has what the options need.
int lowest_ptx(const GpuArch& arch, const CompileOptions& options);

}  // namespace ligerdsl::program
