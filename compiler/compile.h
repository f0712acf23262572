// The compiler's only entry point: compiles a program with options to an artifact.
#pragma once

#include <string>

#include "compiler/time_passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "program/artifact.h"
#include "program/options.h"
#include "program/program.h"

namespace ligerdsl::compiler {

/// Thrown by compile. `internal` marks a bug of the compiler; otherwise the program or the options
/// are wrong.
struct CompileError : std::runtime_error {
  CompileError(const std::string& message, bool internal)
      : std::runtime_error(message), internal(internal) {}
  bool internal;
};

program::Artifact compile(const program::Program& program, const program::CompileOptions& options);

/// Registers every dialect that the pipelines use.
void registerDialects(mlir::DialectRegistry& registry);

/// Collects the wall times of phases (with CompileOptions::spans also of passes), and the text of
/// the stage CompileOptions::emit.
class CompileTrace {
 public:
  explicit CompileTrace(const program::CompileOptions& options)
      : options(options), passes(options.spans) {}
  /// Ends the phase of this name, which began at the previous mark.
  void mark(const char* phase);
  /// Returns true if the options request this stage's text. The pipeline then calls keep() and may
  /// stop.
  bool emits(const char* stage) const { return options.emit == stage; }
  void keep(std::string text) { emitted = std::move(text); }

  /// Returns the phases and the passes inside them.
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
