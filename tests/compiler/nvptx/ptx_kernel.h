// Compiles a DSL kernel to PTX, counts instructions in it and assembles it.
#pragma once

#include <functional>
#include <string>

#include "gtest/gtest.h"
#include "ligerdsl/dsl.h"
#include "program/artifact.h"
#include "program/options.h"
#include "tests/compiler/cpu/cpu_kernel.h"  // compileProgram

namespace ligerdsl::testing {

/// What the launcher knows of a view argument in these tests.
enum class Known {
  nothing,
  aligned,  // 16-byte base, rows a multiple of 16 bytes apart
  whole,    // aligned, and the last dimension a multiple of 16 bytes
};

/// Options of a kernel that neither waits for the one before it nor asks for memory while it waits.
inline program::CompileOptions withoutOverlap() {
  program::CompileOptions options;
  options.launch_overlap = false;
  return options;
}

class PtxKernel {
 public:
  using Build = std::function<void(KernelBuilder&)>;
  explicit PtxKernel(const Build& build, Known known = Known::aligned, program::CompileOptions options = {});

  /// Occurrences of a text in the PTX.
  int count(const std::string& text) const;
  bool has(const std::string& text) const { return count(text) > 0; }

  std::string ptx;
  program::Artifact artifact;
};

/// What ptxas says about a kernel, assembled as the driver's linker does it.
struct Assembled {
  bool ok = false;
  int registers = -1;
  int spilledBytes = -1;
  std::string log;
};
Assembled assemble(const std::string& ptx, const std::string& arch);

/// Compiles for the architecture and expects ptxas to accept it without spills, calls or local memory.
void expectAssembles(const PtxKernel::Build& build, const std::string& arch, Known known = Known::aligned,
                     int numWarps = 4);

/// On sm_80, sm_90a and sm_100.
void expectAssemblesEverywhere(const PtxKernel::Build& build, Known known = Known::aligned, int numWarps = 4);

}  // namespace ligerdsl::testing
