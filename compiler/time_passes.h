// What every pass of MLIR and LLVM takes, for Artifact::spans.
#pragma once

#include <memory>
#include <vector>

#include "program/artifact.h"

namespace mlir {
class PassManager;
}

namespace ligerdsl::compiler {

/// Has LLVM's time profiler note the passes of this thread while it lives, if asked to.
class PassTimes {
 public:
  explicit PassTimes(bool wanted);
  ~PassTimes();
  PassTimes(const PassTimes&) = delete;
  /// All passes that ended; those of a pipeline are inside it.
  std::vector<program::Span> spans() const;

 private:
  bool wanted;
  int64_t beginUs = 0;
};

/// Makes these passes known to the profiler, where it runs. LLVM's pass managers do so by themselves.
void timePasses(mlir::PassManager& passes);

}  // namespace ligerdsl::compiler
