#include "runtime/environment/cpu_level.h"

#include "runtime/system/status.h"

namespace ligerdsl::runtime {
namespace {

constexpr std::string_view kLevels[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

// Instruction sets that a level adds to the previous level.
constexpr struct {
  std::string_view level, feature;
} kAdded[] = {{"x86-64-v2", "cx16"},     {"x86-64-v2", "popcnt"},   {"x86-64-v2", "sse3"},
              {"x86-64-v2", "ssse3"},    {"x86-64-v2", "sse4.1"},   {"x86-64-v2", "sse4.2"},
              {"x86-64-v3", "avx"},      {"x86-64-v3", "avx2"},     {"x86-64-v3", "bmi"},
              {"x86-64-v3", "bmi2"},     {"x86-64-v3", "f16c"},     {"x86-64-v3", "fma"},
              {"x86-64-v3", "lzcnt"},    {"x86-64-v3", "movbe"},    {"x86-64-v4", "avx512f"},
              {"x86-64-v4", "avx512bw"}, {"x86-64-v4", "avx512cd"}, {"x86-64-v4", "avx512dq"},
              {"x86-64-v4", "avx512vl"}};

}  // namespace

std::span<const std::string_view> cpu_levels() {
  return kLevels;
}

void require_cpu_level(std::string_view level, const std::string& features) {
  const std::string all = "," + features + ",";
  for (const auto& added : kAdded) {
    if (added.level > level) return;  // names sort in the order of levels
    if (all.find(",+" + std::string(added.feature) + ",") != std::string::npos) continue;
    fail(Status::not_supported, "LIGERDSL_CPU: level " + std::string(level) + " needs " +
                                    std::string(added.feature) +
                                    ", which this processor lacks; choose a lower level, or unset "
                                    "the variable");
  }
}

}  // namespace ligerdsl::runtime
