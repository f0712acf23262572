#include "compiler/target/nvptx/legality.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// Returns true if the back end can select the math op for every supported float type. Other ops
// (llvm.exp, llvm.log, ...) would become calls of a library that GPUs do not have, and LLVM would
// abort.
bool isSelectable(Operation* op) {
  return isa<math::AbsFOp, math::AbsIOp, math::FmaOp, math::SqrtOp, math::FloorOp, math::CeilOp,
             math::CopySignOp, math::RoundEvenOp, math::TruncOp, math::CtPopOp,
             math::CountLeadingZerosOp>(op);
}

bool isSupportedElement(Type type) {
  type = getElementTypeOrSelf(type);
  return !isa<FloatType>(type) || type.isF32() || type.isF16() || type.isBF16() || type.isF64();
}

}  // namespace

LogicalResult verifyLegality(ModuleOp module) {
  WalkResult walk = module.walk([](Operation* op) {
    Dialect* dialect = op->getDialect();
    if (isa_and_nonnull<math::MathDialect>(dialect) && !isSelectable(op)) {
      op->emitOpError("on ") << op->getOperand(0).getType()
                             << " has no GPU implementation; use other functions";
      return WalkResult::interrupt();
    }
    if (!isa_and_nonnull<math::MathDialect, arith::ArithDialect>(dialect))
      return WalkResult::advance();
    for (Type type : op->getResultTypes())
      if (!isSupportedElement(type)) {
        op->emitOpError("returns ")
            << type << ", which GPU kernels do not support; use f32, f16 or bf16";
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

}  // namespace ligerdsl::compiler::nvptx
