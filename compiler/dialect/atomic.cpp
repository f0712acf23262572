#include "compiler/dialect/atomic.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "compiler/dialect/AtomicOps.cpp.inc"

namespace ligerdsl::compiler {

bool isAtomic(Operation* op) {
  return [&]<typename... Ops>(OpList<Ops...>) { return isa<Ops...>(op); }(AtomicOps());
}

AtomicOperands atomicOperands(Operation* atomic) {
  if (auto cas = dyn_cast<tile::AtomicCASOp>(atomic))
    return {cas.getPtr(), {cas.getExpected(), cas.getDesired()}, cas.getMask()};
  auto rmw = cast<tile::AtomicRMWOp>(atomic);
  return {rmw.getPtr(), {rmw.getValue()}, rmw.getMask()};
}

Operation* cloneAtomic(OpBuilder& builder, Operation* atomic, const AtomicOperands& operands) {
  const AtomicOperands old = atomicOperands(atomic);
  IRMapping mapping;
  mapping.map(old.ptr, operands.ptr);
  for (auto [from, to] : llvm::zip_equal(old.values, operands.values)) mapping.map(from, to);
  if (old.mask) mapping.map(old.mask, operands.mask);
  Operation* clone = builder.clone(*atomic, mapping);
  clone->getResult(0).setType(operands.values[0].getType());
  return clone;
}

// Returns LLVM's atomic operation. LLVM lowers it to a machine instruction or a compare-and-swap
// loop.
static LLVM::AtomicBinOp binaryOp(tile::AtomicKind kind, Type element) {
  const bool isFloat = isa<FloatType>(element);
  switch (kind) {
    case tile::AtomicKind::add:
      return isFloat ? LLVM::AtomicBinOp::fadd : LLVM::AtomicBinOp::add;
    case tile::AtomicKind::max:
      return isFloat ? LLVM::AtomicBinOp::fmaximum : LLVM::AtomicBinOp::max;
    case tile::AtomicKind::min:
      return isFloat ? LLVM::AtomicBinOp::fminimum : LLVM::AtomicBinOp::min;
    case tile::AtomicKind::xchg:
      return LLVM::AtomicBinOp::xchg;
  }
  llvm_unreachable("every AtomicKind has a case");
}

Value updateElement(OpBuilder& builder, Operation* atomic, Value pointer, ArrayRef<Value> values,
                    StringRef scope) {
  constexpr auto kRelaxed = LLVM::AtomicOrdering::monotonic;
  Location loc = atomic->getLoc();
  if (isa<tile::AtomicCASOp>(atomic)) {
    Value exchange = LLVM::AtomicCmpXchgOp::create(builder, loc, pointer, values[0], values[1],
                                                   kRelaxed, kRelaxed, scope);
    return LLVM::ExtractValueOp::create(builder, loc, exchange, ArrayRef<int64_t>{0});
  }
  tile::AtomicKind kind = cast<tile::AtomicRMWOp>(atomic).getKind();
  return LLVM::AtomicRMWOp::create(builder, loc, binaryOp(kind, values[0].getType()), pointer,
                                   values[0], kRelaxed, scope);
}

}  // namespace ligerdsl::compiler
