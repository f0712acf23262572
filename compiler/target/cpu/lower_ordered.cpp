// Lowers scans, atomics and prints. Each op has its own loop nest, in which every partition access
// is guarded. Matmuls are in lower_dot.cpp.
#include "compiler/dialect/atomic.h"
#include "compiler/target/cpu/lowering.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

void TileLowering::lowerOrdered(Operation* op, ArrayRef<int64_t> shape) {
  if (auto scan = dyn_cast<tile::ScanOp>(op)) {
    int lane = laneDimension(shape);
    openNest(shape, lane == static_cast<int>(scan.getAxis()) ? -1 : lane);
    lowerScan(scan);
  } else if (auto dot = dyn_cast<tile::DotOp>(op)) {
    openNest(shape, laneDimension(shape) == 1 ? 1 : -1);
    lowerDot(dot);
  } else {
    openNest(shape, -1);
    if (isAtomic(op))
      lowerAtomic(op);
    else
      lowerPrint(cast<tile::PrintOp>(op));
  }
}

//===-- Scans -----------------------------------------------------------------===//

void TileLowering::lowerScan(tile::ScanOp op) {
  int axis = static_cast<int>(op.getAxis());
  int64_t lanes = nest->lanes, size = nest->shape[axis];
  loopNest(longDims(axis), [&] {
    SmallVector<Value> zeros;
    for (Value source : op.getSources()) {
      Value zero = registers.constant(loc, b.getZeroAttr(getElementTypeOrSelf(source.getType())));
      zeros.push_back(registers.splat(loc, zero, lanes));
    }
    auto loop = scf::ForOp::create(b, loc, i64(0), i64(size), i64(1), zeros);
    nest->loops.push_back(loop);
    nest->depths[axis] = ++nest->inner;
    b.setInsertionPointToEnd(loop.getBody());
    Value step = loop.getInductionVar();
    nest->indices[axis] = op.getReverse() ? sub(i64(size - 1), step) : step;
    nest->body.clear();
    Coords here = identity();
    SmallVector<Value> items,
        arguments(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    for (Value source : op.getSources())
      items.push_back(registers.splat(loc, evaluate(source, here).value, lanes));
    llvm::append_range(arguments, items);
    SmallVector<Value> combined = registers.combine(op.getCombiner(), arguments, lanes);
    if (combined.empty()) {
      broken = true;
      combined = items;
    }
    Value first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, step, i64(0));
    for (auto [value, item, result] : llvm::zip_equal(combined, items, op.getResults())) {
      value = arith::SelectOp::create(b, loc, first, item, value);
      bufferStore(plan.bufferOf(result), here, value);
    }
    scf::YieldOp::create(b, loc, combined);
    b.setInsertionPointAfter(loop);
    nest->loops.pop_back();
    --nest->inner;
  });
}

//===-- Atomics ---------------------------------------------------------------===//

// Visits the elements in row-major order. Two elements with one address thus update it in a fixed
// order within a program.
void TileLowering::lowerAtomic(Operation* op) {
  const AtomicOperands operands = atomicOperands(op);
  loopNest(longDims(-1), [&] {
    nest->body.clear();
    Coords here = identity();
    SmallVector<Value> values;
    for (Value value : operands.values) values.push_back(evaluate(value, here).value);
    Value mask = operands.mask ? evaluate(operands.mask, here).value : Value();
    Value old = atomic(op, toPointer(evaluate(operands.ptr, here).value), values, mask);
    if (Buffer* buffer = plan.bufferOf(op->getResult(0))) bufferStore(buffer, here, old);
  });
}

Value TileLowering::atomic(Operation* op, Value pointer, ArrayRef<Value> values, Value mask) {
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  if (element.isInteger(1)) {
    op->emitOpError("expected integers of 8 bits or more, or floats, got ") << element;
    broken = true;
    return values[0];
  }
  auto perform = [&]() -> Value {
    if (element.isF16() || element.isBF16())
      return atomicHalf(cast<tile::AtomicRMWOp>(op), pointer, values[0], element);
    return updateElement(b, op, pointer, values, /*scope=*/"");
  };
  if (!mask) return perform();
  auto branch = scf::IfOp::create(b, loc, TypeRange{registerType(element)}, mask, true, true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&branch.getThenRegion().front());
  scf::YieldOp::create(b, loc, perform());
  b.setInsertionPointToEnd(&branch.getElseRegion().front());
  scf::YieldOp::create(b, loc, registers.constant(loc, b.getZeroAttr(element)));
  return branch.getResult(0);
}

// Updates an f16 or bf16 by a compare-and-exchange loop on its bits, with arithmetic in f32.
Value TileLowering::atomicHalf(tile::AtomicRMWOp op, Value pointer, Value value, Type element) {
  Type i16 = b.getIntegerType(16);
  Value operand = registers.toF32(loc, value, element);
  Value before = LLVM::LoadOp::create(b, loc, i16, pointer, /*alignment=*/2);
  auto loop = scf::WhileOp::create(b, loc, TypeRange{i16}, ValueRange{before}, nullptr, nullptr);
  OpBuilder::InsertionGuard guard(b);
  Block* attempt = &loop.getBefore().front();
  b.setInsertionPointToEnd(attempt);
  Value seen = attempt->getArgument(0), current = registers.toF32(loc, seen, element), next;
  if (op.getKind() == tile::AtomicKind::add) {
    next = arith::AddFOp::create(b, loc, current, operand);
  } else {
    Value larger = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UGE, operand, current);
    Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, current, current);
    next = arith::SelectOp::create(b, loc, isNan, current,
                                   arith::SelectOp::create(b, loc, larger, operand, current));
  }
  auto exchange = LLVM::AtomicCmpXchgOp::create(
      b, loc, pointer, seen, registers.fromF32(loc, next, element), LLVM::AtomicOrdering::monotonic,
      LLVM::AtomicOrdering::monotonic);
  Value found = LLVM::ExtractValueOp::create(b, loc, exchange, ArrayRef<int64_t>{0});
  Value done = LLVM::ExtractValueOp::create(b, loc, exchange, ArrayRef<int64_t>{1});
  Value again =
      arith::XOrIOp::create(b, loc, done, arith::ConstantOp::create(b, loc, b.getBoolAttr(true)));
  scf::ConditionOp::create(b, loc, again, found);
  Block* retry = &loop.getAfter().front();
  b.setInsertionPointToEnd(retry);
  scf::YieldOp::create(b, loc, retry->getArguments());
  return loop.getResult(0);
}

//===-- Prints ----------------------------------------------------------------===//

// Emits one call of `ligerdsl_cpu_print` per scalar and per element of a tile, or one call if the
// op has no values.
void TileLowering::lowerPrint(tile::PrintOp op) {
  Nest scalarNest;
  if (!nest) nest = &scalarNest;
  if (op.getValues().empty()) printValue(op, i64(0), Type(), i64(-1), {});
  for (Value value : op.getValues()) {
    auto tensor = dyn_cast<RankedTensorType>(value.getType());
    Type element = getElementTypeOrSelf(value.getType());
    if (!tensor) {
      printValue(op, scalar(value), element, i64(-1), {});
      continue;
    }
    Nest own;
    Nest* enclosing = std::exchange(nest, &own);
    openNest(tensor.getShape(), -1);
    loopNest(longDims(-1), [&] {
      nest->body.clear();
      Value index = i64(0);
      int64_t stride = 1;
      for (size_t dim = nest->shape.size(); dim-- > 0; stride *= nest->shape[dim])
        if (nest->indices[dim]) index = add(index, mul(nest->indices[dim], i64(stride)));
      printValue(op, evaluate(value, identity()).value, element, index, tensor.getShape());
    });
    nest = enclosing;
  }
  if (nest == &scalarNest) nest = nullptr;
}

static int32_t printKind(Type element) {
  if (!element) return 0;
  if (element.isBF16()) return 3;
  if (isa<FloatType>(element)) return element.isF16() ? 2 : 4;
  return isa<IntegerType>(element) ? 1 : 5;
}

void TileLowering::printValue(tile::PrintOp op, Value value, Type element, Value index,
                              ArrayRef<int64_t> shape) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext()), i32 = b.getI32Type(),
       wide = b.getI64Type();
  std::string text = op.getText().str(), dims;
  text.push_back('\0');
  for (int64_t size : shape) text += std::to_string(size) + " ";
  text.push_back('\0');
  std::string name = "ligerdsl_text_" + std::to_string(strings++);
  LLVM::LLVMFuncOp callee = module.lookupSymbol<LLVM::LLVMFuncOp>("ligerdsl_cpu_print");
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), text.size()),
                           /*isConstant=*/true, LLVM::Linkage::Internal, name,
                           b.getStringAttr(text));
    if (!callee)
      callee = LLVM::LLVMFuncOp::create(
          b, loc, "ligerdsl_cpu_print",
          LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                      {pointer, i32, i32, i32, wide, i32, wide}));
  }
  Value bits = value;
  if (auto integer = dyn_cast<IntegerType>(value.getType())) {
    bool isHalf = element && (element.isF16() || element.isBF16());
    if (integer.getWidth() < 64)
      bits = integer.getWidth() == 1 || isHalf
                 ? arith::ExtUIOp::create(b, loc, wide, value).getResult()
                 : arith::ExtSIOp::create(b, loc, wide, value).getResult();
  } else {
    bits = arith::ExtUIOp::create(b, loc, wide, arith::BitcastOp::create(b, loc, i32, value));
  }
  Value kind = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(printKind(element)));
  Value address = LLVM::AddressOfOp::create(b, loc, pointer, name);
  LLVM::CallOp::create(
      b, loc, callee,
      ValueRange{address, programId[0], programId[1], programId[2], index, kind, bits});
}

}  // namespace ligerdsl::compiler::cpu
