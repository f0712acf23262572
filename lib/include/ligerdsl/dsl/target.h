// The device that a kernel is recorded for. KernelBuilder::target() and LaunchArguments::target()
// return it, and the library's own kernels use it to choose their schedules.
#ifndef LIGERDSL_DSL_TARGET_H_
#define LIGERDSL_DSL_TARGET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ligerdsl/target.h"

namespace ligerdsl {

// Functions about SMs return 0 for a CPU.
struct Target : ligerdsl_target_t {
  static constexpr int warp_threads = 32;  // threads per warp of every GPU

  // A CPU without known properties.
  constexpr Target() : ligerdsl_target_t{} {
    std::copy_n("cpu", 4, name);
    max_cluster = 1;
    vector_bytes = 16;
  }
  constexpr explicit Target(const ligerdsl_target_t& data) : ligerdsl_target_t(data) {}

  constexpr bool is_gpu() const { return gpu != 0; }

  // Returns the maximum number of CTAs per SM, regardless of registers and shared memory.
  constexpr int ctas_per_sm(int num_warps) const {
    return std::min(max_ctas_per_sm, threads_per_sm / (warp_threads * num_warps));
  }
  // Returns the number of threads per SM if each has `registers` registers.
  constexpr int threads_with(int registers) const { return registers_per_sm / registers; }
  // Returns the bytes of registers per thread if an SM runs `threads` threads.
  constexpr int64_t register_bytes(int64_t threads) const {
    constexpr int64_t kBytes = 4;
    return std::min<int64_t>(kBytes * registers_per_sm / threads, kBytes * max_registers);
  }
  // Returns the bytes of shared memory per CTA if an SM holds `ctas` CTAs; 0 counts as 1.
  constexpr int64_t shared_budget(int ctas) const {
    return std::min(shared_per_cta, shared_per_sm / std::max(1, ctas) - shared_reserved);
  }
  // Returns the bytes of shared_budget() that resident rows may use.
  constexpr int64_t resident_budget(int ctas) const { return shared_budget(ctas) - exchange_bytes; }
  // Returns the bytes of an SM's shared memory for rows that the CTAs of a cluster share.
  constexpr int64_t shared_for_rows() const { return shared_per_sm - shared_not_rows; }
};

// Returns a target by name: "cpu" (this processor), a level of x86-64 ("x86-64-v3"), or a GPU
// architecture ("sm_90a"), with the properties of its usual chip. Throws Error for another name.
Target target_named(const std::string& name);
// Returns the target that another binary passes. Its struct may have fewer or more fields.
Target target_from(const ligerdsl_target_t* target, size_t target_bytes);

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_TARGET_H_
