#include "cpu_kernel.h"

#include <memory>

#include "compiler/compile.h"
#include "compiler/target/cpu/cpu_target.h"
#include "program/serialize.h"

namespace ligerdsl::testing {

program::Artifact compileProgram(const program::Program& program,
                                 const program::CompileOptions& options) {
  // Serialises and parses the program first, like the library, so that the parser's checks run too.
  return compiler::compile(program::parseProgram(program::serialize(program)), options);
}

LoadedKernel::LoadedKernel(const program::Artifact& artifact) {
  void* address = nullptr;
  module = compiler::loadCpuObject(artifact.code, artifact.entry, &address);
  entry = reinterpret_cast<program::CpuEntry>(address);
}

LoadedKernel::~LoadedKernel() {
  compiler::unloadCpuObject(static_cast<ligerdsl_cpu_module*>(module));
}

CpuKernel::CpuKernel(const std::function<void(KernelBuilder&)>& build,
                     program::CompileOptions options) {
  KernelBuilder k("kernel");
  build(k);
  artifact = compileProgram(k.finish(), options);
  if (options.emit.empty()) loaded = std::make_unique<LoadedKernel>(artifact);
  arena.resize(artifact.arena_bytes + 128);
}

void CpuKernel::run(const Slots& slots, std::vector<int32_t> grid) {
  ASSERT_EQ(slots.words.size(), artifact.slots);
  grid.resize(3, 1);
  // The byte after the arena must not change.
  void* base = arena.data();
  size_t space = arena.size();
  std::align(64, artifact.arena_bytes + 1, base, space);
  std::memset(base, 0x5a, artifact.arena_bytes + 1);
  loaded->entry(slots.words.data(), grid.data(), 0, int64_t(grid[0]) * grid[1] * grid[2], base);
  ASSERT_EQ(static_cast<char*>(base)[artifact.arena_bytes], 0x5a);
}

program::CompileOptions aliasing(std::vector<uint32_t> classes) {
  program::CompileOptions options;
  for (uint32_t number : classes) options.facts.emplace_back().alias_class = number;
  return options;
}

std::vector<std::string> hostLevels() {
  std::vector<std::string> levels = {""};
#if defined(__x86_64__)
  levels.push_back("x86-64-v2");
  const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (wide) levels.push_back("x86-64-v3");
  if (wide && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd"))
    levels.push_back("x86-64-v4");
#endif
  return levels;
}

std::vector<float> randomFloats(size_t count, unsigned seed, float low, float high) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> distribution(low, high);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(engine);
  return values;
}

uint16_t toBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float fromBf16(uint16_t half) {
  uint32_t bits = uint32_t(half) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Rounds to a multiple of f16's spacing at the value's magnitude. Slow, but easy to verify.
uint16_t toF16(float value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double size = std::fabs(double(value));
  if (std::isnan(value)) return sign | 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  int exponent = size < std::ldexp(1.0, -14) ? -14 : std::ilogb(size);
  double units =
      std::nearbyint(std::ldexp(size, 10 - exponent));  // units in the last place; ties to even
  return static_cast<uint16_t>(sign + int(units) + ((exponent + 14) << 10));
}

float fromF16(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float size = exponent == 0    ? std::ldexp(float(fraction), -24)
               : exponent == 31 ? (fraction ? NAN : INFINITY)
                                : std::ldexp(float(1024 + fraction), exponent - 25);
  return bits & 0x8000 ? -size : size;
}

}  // namespace ligerdsl::testing
