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

/// Facts of the view arguments in these tests.
enum class Known {
  nothing,
  aligned,  // 16-byte base, row strides that are multiples of 16 bytes
  whole,    // aligned, and the last dimension is a multiple of 16 bytes
};

/// Returns options without launch overlap: the kernel neither waits for the earlier grid nor
/// prefetches.
inline program::CompileOptions withoutOverlap() {
  program::CompileOptions options;
  options.launch_overlap = false;
  return options;
}

class PtxKernel {
 public:
  using Build = std::function<void(KernelBuilder&)>;
  explicit PtxKernel(const Build& build, Known known = Known::aligned,
                     program::CompileOptions options = {});

  /// Returns the number of occurrences of a text in the PTX.
  int count(const std::string& text) const;
  bool has(const std::string& text) const { return count(text) > 0; }

  std::string ptx;
  program::Artifact artifact;
};

/// Report of ptxas on a kernel, which it assembles like the driver does.
struct Assembled {
  bool ok = false;
  int registers = -1;
  int spilledBytes = -1;
  std::string log;
};
Assembled assemble(const std::string& ptx, const std::string& arch);

/// Compiles for the architecture. Expects that ptxas accepts the PTX and serialises no wgmma, and
/// that the code has no spills, calls, local memory or compare-and-swap loops.
void expectAssembles(const PtxKernel::Build& build, const std::string& arch,
                     Known known = Known::aligned, int numWarps = 4);

/// Calls expectAssembles for sm_80, sm_90a and sm_100.
void expectAssemblesEverywhere(const PtxKernel::Build& build, Known known = Known::aligned,
                               int numWarps = 4);

}  // namespace ligerdsl::testing
