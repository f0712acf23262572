// The compiler's one entry: a program and options in, an artifact out.
#pragma once

#include <string>

#include "compiler/time_passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "program/artifact.h"
#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::compiler {

/// Thrown by compile. `internal` marks a bug of ours; otherwise the program or the options are at fault.
struct CompileError : std::runtime_error {
  CompileError(const std::string& message, bool internal) : std::runtime_error(message), internal(internal) {}
  bool internal;
};

program::Artifact compile(const program::Program& program, const program::CompileOptions& options);

/// Registers every dialect that the pipelines meet.
void registerDialects(mlir::DialectRegistry& registry);

/// Collects the phases' wall times, where asked for with their passes' (Artifact::spans), and, when CompileOptions::emit
/// names a stage, that stage's text.
class CompileTrace {
 public:
  explicit CompileTrace(const program::CompileOptions& options) : options(options), passes(options.spans) {}
  /// Ends the phase that ran since the last mark.
  void mark(const char* phase);
  /// True when this stage is the one to return; then `text` is kept and the pipeline may stop.
  bool emits(const char* stage) const { return options.emit == stage; }
  void keep(std::string text) { emitted = std::move(text); }

  /// The phases, and the passes inside them.
  std::vector<program::Span> spans() const;

  std::vector<program::PhaseTime> times;
  std::string emitted;

 private:
  const program::CompileOptions& options;
  PassTimes passes;
  double first = now(), last = first;  // ms
  static double now();
};

std::string printModule(mlir::ModuleOp module);

}  // namespace ligerdsl::compiler
