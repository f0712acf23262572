// What a program asked for and did not get, told to its author.
//
// A pass that leaves something undone calls missed(): what was asked, why it was not done, what to change, at the
// author's file and line. Remarks are MLIR diagnostics: tests read them with -verify-diagnostics, compile() collects
// them into the artifact, and none of them ever joins an error's text.
#pragma once

#include <string>

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"
#include "program/artifact.h"

namespace ligerdsl::compiler {

/// missed(op, "tile-prefetch-loads") << "what was asked: why not; what to change".
mlir::InFlightDiagnostic missed(mlir::Location at, llvm::StringRef pass);
inline mlir::InFlightDiagnostic missed(mlir::Operation* op, llvm::StringRef pass) {
  return missed(op->getLoc(), pass);
}

/// "kernel.cpp:12", for remarks that name a second place.
std::string placeOf(mlir::Location at);
inline std::string placeOf(mlir::Operation* op) {
  return placeOf(op->getLoc());
}

/// A remark or a warning as data.
program::Remark toRemark(mlir::Diagnostic& diagnostic);

}  // namespace ligerdsl::compiler
