#include "compiler/pipeline/pipelined_loop.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ligerdsl::compiler {

MissedRemark PipelinedLoop::remark(Operation* op, RemarkId id) const {
  return missed(op, id) << "num_stages = " << stages << ": ";
}

bool PipelinedLoop::addSlice(Value value, SetVector<Operation*>& slice, bool& follows) {
  if (value == loop.getInductionVar()) return follows = true;
  if (loop.isDefinedOutsideOfLoop(value)) return true;
  Operation* op = value.getDefiningOp();
  if (!op || op->getNumRegions() || !isPure(op)) {
    reasonNotAhead =
        op ? "its index comes from the op at " + placeOf(op) + ", which reads memory or branches"
           : std::string("its index depends on a value that the loop carries");
    reasonNotAhead +=
        "; compute the index from the loop's counter and from values from outside the loop";
    return false;
  }
  for (Value operand : op->getOperands())
    if (!addSlice(operand, slice, follows)) return false;
  slice.insert(op);
  return true;
}

SmallVector<Value> PipelinedLoop::positionOf(tile::LoadTileOp load) {
  SmallVector<Value> values(load.getIndices());
  if (load.getAlignmentOffset()) values.push_back(load.getAlignmentOffset());
  return values;
}

IRMapping PipelinedLoop::indicesAt(OpBuilder& builder, ArrayRef<tile::LoadTileOp> loads, Value at,
                                   IRMapping mapping) {
  mapping.map(loop.getInductionVar(), at);
  SetVector<Operation*> slice;
  bool follows = false;
  for (tile::LoadTileOp load : loads)
    for (Value index : positionOf(load)) addSlice(index, slice, follows);
  for (Operation* op : slice) builder.clone(*op, mapping);
  return mapping;
}

SmallVector<Value> PipelinedLoop::loadAt(OpBuilder& builder, ArrayRef<tile::LoadTileOp> loads,
                                         Value at) {
  IRMapping mapping = indicesAt(builder, loads, at);
  return llvm::map_to_vector(loads, [&](tile::LoadTileOp load) {
    return Value(builder.clone(*load, mapping)->getResult(0));
  });
}

Value PipelinedLoop::ahead(OpBuilder& builder, Value from) const {
  scf::ForOp at = loop;
  return arith::AddIOp::create(builder, at.getLoc(), from, at.getStep());
}

}  // namespace ligerdsl::compiler
