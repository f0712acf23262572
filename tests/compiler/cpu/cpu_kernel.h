// Compiles a DSL kernel for the CPU and runs it. Includes no compiler header, so that tests compile
// without MLIR's headers.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ligerdsl/dsl.h"
#include "program/artifact.h"
#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::testing {

/// Compiles a program. Throws std::runtime_error with the compiler's diagnostics on failure.
program::Artifact compileProgram(const program::Program& program,
                                 const program::CompileOptions& options);

/// An artifact's entry function. It is linked into this process while the LoadedKernel lives.
class LoadedKernel {
 public:
  explicit LoadedKernel(const program::Artifact& artifact);
  ~LoadedKernel();
  LoadedKernel(const LoadedKernel&) = delete;
  program::CpuEntry entry = nullptr;

 private:
  void* module = nullptr;
};

/// Slots of a launch. Each call appends one argument.
class Slots {
 public:
  /// Appends a view. Strides are in elements; empty means row-major.
  template <class T>
  Slots& view(T* data, std::vector<int64_t> dims, std::vector<int64_t> strides = {}) {
    words.push_back(reinterpret_cast<uint64_t>(data));
    if (strides.empty()) {
      strides.resize(dims.size());
      int64_t stride = 1;
      for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
    }
    words.insert(words.end(), dims.begin(), dims.end());
    words.insert(words.end(), strides.begin(), strides.end());
    return *this;
  }
  template <class T>
  Slots& value(T number) {
    uint64_t word = 0;
    std::memcpy(&word, &number, sizeof number);
    words.push_back(word);
    return *this;
  }
  std::vector<uint64_t> words;
};

/// Compiles and runs the kernel that `build` records.
class CpuKernel {
 public:
  explicit CpuKernel(const std::function<void(KernelBuilder&)>& build,
                     program::CompileOptions options = {});
  void run(const Slots& slots, std::vector<int32_t> grid = {1});
  program::Artifact artifact;

 private:
  std::unique_ptr<LoadedKernel> loaded;
  std::vector<char> arena;
};

/// Returns compile options in which argument i has the alias class classes[i].
program::CompileOptions aliasing(std::vector<uint32_t> classes);

/// Returns names of CPUs whose code this host can run: "" (this host), then levels of x86-64 with
/// vector registers of 16, 32 and 64 bytes.
std::vector<std::string> hostLevels();

std::vector<float> randomFloats(size_t count, unsigned seed = 1, float low = -2, float high = 2);
uint16_t toBf16(float value);
float fromBf16(uint16_t bits);
uint16_t toF16(float value);
float fromF16(uint16_t bits);

}  // namespace ligerdsl::testing
