#include "compiler/target/nvptx/wide_products.h"

#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {

bool WideProducts::contains(Operation* op) {
  if (auto found = known.find(op); found != known.end()) return found->second;
  bool product = false, shift = false;
  llvm::SetVector<Operation*> group;
  group.insert(op);
  auto follow = [&](Value value, Operation* next) {
    auto tile = dyn_cast<RankedTensorType>(value.getType());
    if (tile && tile.getElementType().isInteger(64) && next &&
        next->hasTrait<OpTrait::Elementwise>())
      group.insert(next);
  };
  for (size_t i = 0; i < group.size(); ++i) {
    Operation* at = group[i];
    product |= isa<arith::MulIOp>(at) && getElementTypeOrSelf(at->getResult(0)).isInteger(64);
    shift |= isa<arith::ShRSIOp, arith::ShRUIOp>(at);
    for (Value operand : at->getOperands()) follow(operand, operand.getDefiningOp());
    for (Value result : at->getResults())
      for (Operation* user : result.getUsers()) follow(result, user);
  }
  for (Operation* member : group) known[member] = product && shift;
  return product && shift;
}

}  // namespace ligerdsl::compiler::nvptx
