// Times of every MLIR and LLVM pass, for Artifact::spans.
#pragma once

#include <memory>
#include <vector>

#include "program/artifact.h"

namespace mlir {
class PassManager;
}

namespace ligerdsl::compiler {

/// Runs LLVM's time profiler for this thread's passes during its lifetime, if `wanted`.
class PassTimes {
 public:
  explicit PassTimes(bool wanted);
  ~PassTimes();
  PassTimes(const PassTimes&) = delete;
  /// Returns all passes that have ended. The span of a nested pipeline contains the spans of its
  /// passes.
  std::vector<program::Span> spans() const;

 private:
  bool wanted;
  int64_t beginUs = 0;
};

/// Makes the profiler, if it runs, record the passes of this pass manager. LLVM's own pass managers
/// are recorded without this call.
void timePasses(mlir::PassManager& passes);

}  // namespace ligerdsl::compiler
