// Atomic read-modify-write on global memory: relaxed, at device scope, one instruction per element.
//
// f32, i32 and i64 additions and integer maxima are native; f16 (sm_70) and bf16 (sm_90) additions as well. What the
// machine lacks (f32 maximum, bf16 additions before sm_90) LLVM expands to a compare-and-swap loop. The floating-point
// maximum is NaN if either side is, like the language's max.
#include "compiler/target/nvptx/memory_access.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

LLVM::AtomicBinOp binaryOp(tile::AtomicKind kind, Type element) {
  bool isFloat = isa<FloatType>(element);
  if (kind == tile::AtomicKind::add) return isFloat ? LLVM::AtomicBinOp::fadd : LLVM::AtomicBinOp::add;
  return isFloat ? LLVM::AtomicBinOp::fmaximum : LLVM::AtomicBinOp::max;
}

Value update(ThreadLowering& t, tile::AtomicKind kind, Value address, Value value) {
  return LLVM::AtomicRMWOp::create(t.b, t.loc, binaryOp(kind, value.getType()), globalPointer(t, address), value,
                                   LLVM::AtomicOrdering::monotonic, "device");
}

// Under a predicate the update sits in a branch and the old value is 0 where it did not happen.
Value updateIf(ThreadLowering& t, tile::AtomicKind kind, Value address, Value value, Value predicate) {
  if (!predicate) return update(t, kind, address, value);
  auto branch = scf::IfOp::create(t.b, t.loc, TypeRange(value.getType()), predicate, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(t.b);
  t.b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(t.b, t.loc, update(t, kind, address, value));
  t.b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(t.b, t.loc, t.zero(value.getType()));
  return branch.getResult(0);
}

LogicalResult lowerAtomic(ThreadLowering& t, tile::AtomicRMWOp op) {
  Type element = t.elementType(op.getValue().getType());
  if (element.getIntOrFloatBitWidth() < 16) return op.emitOpError("needs elements of 16 bits or more, got ") << element;
  SmallVector<Value> addresses = t.elements(op.getPtr()), values = t.elements(op.getValue()), masks, old;
  if (op.getMask()) masks = t.elements(op.getMask());
  auto tensor = dyn_cast<RankedTensorType>(op.getPtr().getType());
  Value owner = tensor ? t.ownerPredicate(t.layout(tensor)) : t.threadMaskIsZero(t.numThreads() - 1);
  for (auto [i, address] : llvm::enumerate(addresses)) {
    Value mask = masks.empty() ? Value() : masks[masks.size() == 1 ? 0 : i];
    old.push_back(updateIf(t, op.getKind(), address, values[values.size() == 1 ? 0 : i], t.both(owner, mask)));
  }
  t.defineElements(op.getResult(), old);
  return success();
}

}  // namespace

void addAtomicLowerings(LoweringTable& table) {
  table.add<tile::AtomicRMWOp, lowerAtomic>();
}

}  // namespace ligerdsl::compiler::nvptx
