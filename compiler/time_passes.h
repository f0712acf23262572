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
  /// Returns all passes that have ended. A nested pipeline's span contains those of its passes.
  std::vector<program::Span> spans() const;

 private:
  bool wanted;
  int64_t beginUs = 0;
};

/// Makes the profiler, if it runs, record these passes. LLVM's own pass managers do so
/// automatically.
void timePasses(mlir::PassManager& passes);

}  // namespace ligerdsl::compiler
