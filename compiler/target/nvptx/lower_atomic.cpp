// Lowers atomics on global memory: one relaxed update at device scope per element.
//
// GPUs have instructions for exchange, compare-and-swap, integer minimum and maximum, and addition
// of f32, i32, i64, f16 (from sm_70) and bf16 (from sm_90). LLVM expands other updates, for example
// an f32 maximum, to a loop of compare-and-swaps. A floating-point maximum is NaN if either operand
// is, like the DSL's max.
#include "compiler/dialect/atomic.h"
#include "compiler/target/nvptx/memory_access.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

Value update(ThreadLowering& t, Operation* op, Value address, ArrayRef<Value> values) {
  return updateElement(t.b, op, globalPointer(t, address), values, "device");
}

// With a predicate, the update is inside a branch. Threads that skip it get 0 as the old value.
Value updateIf(ThreadLowering& t, Operation* op, Value address, ArrayRef<Value> values,
               Value predicate) {
  if (!predicate) return update(t, op, address, values);
  Type type = values[0].getType();
  auto branch = scf::IfOp::create(t.b, t.loc, TypeRange(type), predicate, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(t.b);
  t.b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(t.b, t.loc, update(t, op, address, values));
  t.b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(t.b, t.loc, t.zero(type));
  return branch.getResult(0);
}

LogicalResult lowerAtomic(ThreadLowering& t, Operation* op) {
  const AtomicOperands operands = atomicOperands(op);
  Type element = t.elementType(operands.values[0].getType());
  if (element.getIntOrFloatBitWidth() < 16)
    return op->emitOpError("expected elements of 16 bits or more, got ") << element;
  // A single value applies to all elements.
  auto at = [](ArrayRef<Value> elements, size_t i) {
    return elements[elements.size() == 1 ? 0 : i];
  };
  SmallVector<Value> addresses = t.elements(operands.ptr), masks, old;
  auto values =
      llvm::map_to_vector(operands.values, [&](Value value) { return t.elements(value); });
  if (operands.mask) masks = t.elements(operands.mask);
  auto tensor = dyn_cast<RankedTensorType>(operands.ptr.getType());
  Value owner =
      tensor ? t.ownerPredicate(t.layout(tensor)) : t.threadMaskIsZero(t.numThreads() - 1);
  for (auto [i, address] : llvm::enumerate(addresses)) {
    Value mask = masks.empty() ? Value() : at(masks, i);
    SmallVector<Value> own;
    for (const auto& elements : values) own.push_back(at(elements, i));
    old.push_back(updateIf(t, op, address, own, t.both(owner, mask)));
  }
  t.defineElements(op->getResult(0), old);
  return success();
}

template <typename Op>
LogicalResult lower(ThreadLowering& t, Op op) {
  return lowerAtomic(t, op);
}

}  // namespace

void addAtomicLowerings(LoweringTable& table) {
  [&]<typename... Ops>(OpList<Ops...>) { (table.add<Ops, lower<Ops>>(), ...); }(AtomicOps());
}

}  // namespace ligerdsl::compiler::nvptx
