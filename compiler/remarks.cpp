#include "compiler/remarks.h"

#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

using namespace mlir;

namespace ligerdsl::compiler {

InFlightDiagnostic missed(Location at, StringRef pass) {
  InFlightDiagnostic remark = emitRemark(at);
  remark << "[" << pass << "] ";
  return remark;
}

std::string placeOf(Location at) {
  auto place = at->findInstanceOf<FileLineColLoc>();
  return place ? place.getFilename().str() + ":" + std::to_string(place.getLine()) : "an unknown place";
}

program::Remark toRemark(Diagnostic& diagnostic) {
  program::Remark remark{.text = diagnostic.str()};
  if (auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>()) {
    remark.file = place.getFilename().str();
    remark.line = place.getLine();
    remark.column = place.getColumn();
  }
  StringRef text = remark.text;
  if (text.consume_front("[")) {
    auto [pass, rest] = text.split("] ");
    remark.pass = pass.str();
    remark.text = rest.str();
  }
  return remark;
}

}  // namespace ligerdsl::compiler
