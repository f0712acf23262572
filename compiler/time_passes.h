// Times of every MLIR and LLVM pass, for Artifact::spans.
#pragma once

#include <memory>
#include <vector>

#include "program/artifact.h"

namespace mlir {
class PassManager;
}

namespace ligerdsl::compiler {

/// While it lives, LLVM's time profiler records the passes of this thread, if `wanted`.
class PassTimes {
 public:
  explicit PassTimes(bool wanted);
  ~PassTimes();
  PassTimes(const PassTimes&) = delete;
  /// All passes that ended. Passes of a nested pipeline are inside it.
  std::vector<program::Span> spans() const;

 private:
  bool wanted;
  int64_t beginUs = 0;
};

/// Makes the profiler, if it runs, record these passes. LLVM's pass managers do so by themselves.
void timePasses(mlir::PassManager& passes);

}  // namespace ligerdsl::compiler
