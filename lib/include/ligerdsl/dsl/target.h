// The device that a kernel is recorded for: what KernelBuilder::target() and LaunchArguments::target() give, and what
// the library's own kernels choose their schedules by.
#ifndef LIGERDSL_DSL_TARGET_H_
#define LIGERDSL_DSL_TARGET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ligerdsl/target.h"

namespace ligerdsl {

// Functions that are about SMs give 0 for a CPU.
struct Target : ligerdsl_target_t {
  static constexpr int warp_threads = 32;  // of every GPU

  // A CPU of which nothing is known.
  constexpr Target() : ligerdsl_target_t{} {
    std::copy_n("cpu", 4, name);
    max_cluster = 1;
    vector_bytes = 16;
  }
  constexpr explicit Target(const ligerdsl_target_t& data) : ligerdsl_target_t(data) {}

  constexpr bool is_gpu() const { return gpu != 0; }

  // CTAs that an SM holds at most, by their threads alone.
  constexpr int ctas_per_sm(int num_warps) const {
    return std::min(max_ctas_per_sm, threads_per_sm / (warp_threads * num_warps));
  }
  // Threads of an SM that can have as many registers each.
  constexpr int threads_with(int registers) const { return registers_per_sm / registers; }
  // Bytes of registers that each of `threads` threads of an SM can have.
  constexpr int64_t register_bytes(int64_t threads) const {
    constexpr int64_t kBytes = 4;
    return std::min<int64_t>(kBytes * registers_per_sm / threads, kBytes * max_registers);
  }
  // Shared memory of a CTA, in bytes, that leaves room for as many of them per SM; 0 and 1: all that one can have.
  constexpr int64_t shared_budget(int ctas) const {
    return std::min(shared_per_cta, shared_per_sm / std::max(1, ctas) - shared_reserved);
  }
  // What of it resident rows may take.
  constexpr int64_t resident_budget(int ctas) const { return shared_budget(ctas) - exchange_bytes; }
  // Shared memory of an SM, in bytes, for rows that the CTAs of a cluster share.
  constexpr int64_t shared_for_rows() const { return shared_per_sm - shared_not_rows; }
};

// By name: "cpu", which is this processor, a level of x86-64 ("x86-64-v3"), or a GPU architecture ("sm_90a"), whose
// usual chip it is. Throws Error for another name.
Target target_named(const std::string& name);
// What another binary says, which may know fewer fields, or more.
Target target_from(const ligerdsl_target_t* target, size_t target_bytes);

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_TARGET_H_
