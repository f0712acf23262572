#include "compiler/remarks.h"

#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"

using namespace mlir;

namespace ligerdsl::compiler {

MissedRemark::MissedRemark(Location at, RemarkId id) : diagnostic(emitRemark(at)), id(id) {
  diagnostic << "[" << pass_of(id) << "] ";
}

MissedRemark::~MissedRemark() {
  if (diagnostic.getUnderlyingDiagnostic()) diagnostic << " [" << id_of(id) << "]";
}

std::string placeOf(Location at) {
  auto place = at->findInstanceOf<FileLineColLoc>();
  return place ? place.getFilename().str() + ":" + std::to_string(place.getLine())
               : "an unknown place";
}

program::Remark toRemark(Diagnostic& diagnostic) {
  program::Remark remark{.text = diagnostic.str()};
  if (auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>()) {
    remark.file = place.getFilename().str();
    remark.line = place.getLine();
    remark.column = place.getColumn();
  }
  StringRef text = remark.text;
  if (!text.consume_front("[") || !text.consume_back("]")) return remark;
  const auto [pass, rest] = text.split("] ");
  const auto [said, id] = rest.rsplit(" [");
  if (!program::find_remark(id)) return remark;
  remark.pass = pass.str();
  remark.id = id.str();
  remark.text = said.str();
  return remark;
}

}  // namespace ligerdsl::compiler
