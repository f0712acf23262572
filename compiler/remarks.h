// Remarks: what a program asked for and did not get.
//
// A pass that does not do something calls missed() with what was asked, why it was not done and
// what to change, at the author's file and line. Remarks are MLIR diagnostics. Tests read them with
// -verify-diagnostics, compile() collects them in the artifact, and they are never part of an
// error's text.
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
