// Finds targets by name, and reads targets that other binaries pass.
#include "ligerdsl/dsl/target.h"

#include <cstring>

#include "ligerdsl/dsl/error.h"
#include "program/gpu_arch.h"

namespace ligerdsl {
namespace {

// Returns the bytes of the widest vector registers that kernels use on this processor.
int32_t host_vector_bytes() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return 64;
  if (__builtin_cpu_supports("avx")) return 32;
#endif
  return Target().vector_bytes;
}

struct Level {
  const char* name;
  int32_t vector_bytes;
};
constexpr Level kLevels[] = {
    {"x86-64", 16}, {"x86-64-v2", 16}, {"x86-64-v3", 32}, {"x86-64-v4", 64}};

}  // namespace

Target target_named(const std::string& name) {
  Target cpu;
  if (name == "cpu") {
    cpu.vector_bytes = host_vector_bytes();
    return cpu;
  }
  std::string names = "cpu";
  for (const Level& level : kLevels) {
    cpu.vector_bytes = level.vector_bytes;
    if (name == level.name) return cpu;
    names += std::string(", ") + level.name;
  }
  if (const program::GpuArch* arch = program::find_gpu_arch(name)) return *arch;
  throw Error("error: there is no target '" + name + "'; expected one of " + names + ", " +
              program::gpu_arch_names());
}

Target target_from(const ligerdsl_target_t* target, size_t target_bytes) {
  ligerdsl_target_t known{};
  std::memcpy(&known, target, std::min(target_bytes, sizeof known));
  known.name[sizeof known.name - 1] = '\0';
  return Target(known);
}

}  // namespace ligerdsl
