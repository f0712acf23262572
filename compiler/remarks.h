// Remarks: messages about requests of a program that the compiler did not fulfil.
//
// A pass that does not fulfil a request calls missed() with the request, the reason and the remedy,
// at the author's file and line. program/remarks.def declares every remark. Remarks are MLIR
// diagnostics. Tests read them with -verify-diagnostics, compile() collects them in the artifact,
// and they are never part of an error's text.
#pragma once

#include <string>
#include <utility>

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"
#include "program/remarks.h"

namespace ligerdsl::compiler {

using program::RemarkId;

/// A remark under construction. The destructor appends the id and reports the remark.
class MissedRemark {
 public:
  MissedRemark(mlir::Location at, RemarkId id);
  MissedRemark(MissedRemark&&) = default;
  ~MissedRemark();

  template <typename Part>
  MissedRemark& operator<<(Part&& part) & {
    diagnostic << std::forward<Part>(part);
    return *this;
  }
  template <typename Part>
  MissedRemark&& operator<<(Part&& part) && {
    return std::move(*this << std::forward<Part>(part));
  }

 private:
  mlir::InFlightDiagnostic diagnostic;  // inactive after a move
  RemarkId id;
};

/// missed(op, RemarkId::load_not_staged) << "<request>: <reason>; <what to change>" reports
/// "[tile-prefetch-loads] text [load-not-staged]".
inline MissedRemark missed(mlir::Location at, RemarkId id) {
  return {at, id};
}
inline MissedRemark missed(mlir::Operation* op, RemarkId id) {
  return {op->getLoc(), id};
}

/// Returns "kernel.cpp:12", for remarks that name a second place.
std::string placeOf(mlir::Location at);
inline std::string placeOf(mlir::Operation* op) {
  return placeOf(op->getLoc());
}

/// Returns a remark or a warning as data.
program::Remark toRemark(mlir::Diagnostic& diagnostic);

}  // namespace ligerdsl::compiler
