// Lowers the entry function without its tile ops: argument slots, the loop over programs, scalar
// code and control flow.
#include "compiler/dialect/atomic.h"
#include "compiler/dialect/slice_step.h"
#include "compiler/target/cpu/lowering.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

TileLowering::TileLowering(func::FuncOp source, const Plan& plan, bool hasF16c, bool hasStreaming)
    : source(source),
      plan(plan),
      b(source.getContext()),
      loc(source.getLoc()),
      registers(b, hasF16c, [this](Value value) { return scalar(value); }),
      hasStreaming(hasStreaming) {}

//===-- Helpers ---------------------------------------------------------------===//

Value TileLowering::i64(int64_t value) {
  return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
}
Value TileLowering::add(Value x, Value y) {
  return b.createOrFold<arith::AddIOp>(loc, x, y);
}
Value TileLowering::sub(Value x, Value y) {
  return b.createOrFold<arith::SubIOp>(loc, x, y);
}
Value TileLowering::mul(Value x, Value y) {
  return b.createOrFold<arith::MulIOp>(loc, x, y);
}
Value TileLowering::less(Value x, Value y) {
  return b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::slt, x, y);
}
Value TileLowering::both(Value x, Value y) {
  return !x ? y : !y ? x : b.createOrFold<arith::AndIOp>(loc, x, y);
}

Value TileLowering::toI64(Value integer) {
  if (integer.getType().isInteger(64)) return integer;
  return b.createOrFold<arith::ExtSIOp>(loc, b.getI64Type(), integer);
}

Value TileLowering::iota(Type element, int64_t lanes) {
  SmallVector<APInt> numbers;
  for (int64_t i = 0; i < lanes; ++i) numbers.emplace_back(element.getIntOrFloatBitWidth(), i);
  return arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(VectorType::get({lanes}, element), numbers));
}

Value TileLowering::toPointer(Value address) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  if (auto vector = dyn_cast<VectorType>(address.getType()))
    pointer = VectorType::get(vector.getShape(), pointer);
  return LLVM::IntToPtrOp::create(b, loc, pointer, address);
}

Value TileLowering::scalar(Value value) {
  Value known = scalars.lookup(value);
  if (known) return known;
  emitError(value.getLoc(), "internal error: the CPU target uses this value before it lowers it");
  broken = true;
  return LLVM::PoisonOp::create(b, loc, registerType(getElementTypeOrSelf(value.getType())));
}

// Returns the scalars among `values`. Loops carry only scalars, because tiles are in buffers.
SmallVector<Value> TileLowering::scalarsOf(ValueRange values) {
  SmallVector<Value> result;
  for (Value value : values)
    if (!isa<RankedTensorType>(value.getType())) result.push_back(scalar(value));
  return result;
}

SmallVector<Type> TileLowering::scalarTypes(TypeRange types) {
  SmallVector<Type> result;
  for (Type type : types)
    if (!isa<RankedTensorType>(type)) result.push_back(registerType(type));
  return result;
}

//===-- The frame -------------------------------------------------------------===//

LogicalResult TileLowering::run(ModuleOp into, StringRef entry) {
  module = into;
  b.setInsertionPointToEnd(module.getBody());
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  {pointer, pointer, b.getI64Type(), b.getI64Type(), pointer});
  auto function = LLVM::LLVMFuncOp::create(b, loc, entry, type);
  Block* body = function.addEntryBlock(b);
  for (unsigned i : {0u, 1u, 4u}) function.setArgAttr(i, "llvm.noundef", b.getUnitAttr());
  for (unsigned i : {0u, 1u}) function.setArgAttr(i, "llvm.noalias", b.getUnitAttr());
  function.setArgAttr(4, "llvm.noalias", b.getUnitAttr());
  function.setArgAttr(4, "llvm.align", b.getI64IntegerAttr(64));
  b.setInsertionPointToStart(body);
  arena = body->getArgument(4);
  readArguments(body->getArgument(0));
  for (int axis = 0; axis < 3; ++axis) {
    Value at = LLVM::GEPOp::create(b, loc, pointer, b.getI32Type(), body->getArgument(1),
                                   ArrayRef<LLVM::GEPArg>{axis});
    grid[axis] = LLVM::LoadOp::create(b, loc, b.getI32Type(), at);
  }
  // The x id is incremented, because a division per program is expensive compared with a small
  // program.
  Value first = arith::TruncIOp::create(
      b, loc, b.getI32Type(), arith::RemUIOp::create(b, loc, body->getArgument(2), toI64(grid[0])));
  auto programs = scf::ForOp::create(b, loc, body->getArgument(2), body->getArgument(3), i64(1),
                                     ValueRange{first});
  auto end = LLVM::ReturnOp::create(b, loc, ValueRange());
  b.setInsertionPointToEnd(programs.getBody());
  programId[0] = programs.getRegionIterArg(0);
  Value one = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(1));
  Value zero = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
  Value next = arith::AddIOp::create(b, loc, programId[0], one);
  Value wraps = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, next, grid[0]);
  next = arith::SelectOp::create(b, loc, wraps, zero, next);
  b.setInsertionPoint(scf::YieldOp::create(b, loc, ValueRange{next}));
  deriveSlowerIds(programs.getInductionVar());
  lowerBlock(&source.getBody().front());
  // Non-temporal stores need a fence. The fence waits for other stores too, so it runs only if a
  // view with non-temporal stores is large.
  if (!streamed.empty()) {
    b.setInsertionPoint(end);
    Value any = streamed.front();
    for (Value large : llvm::drop_begin(streamed))
      any = b.createOrFold<arith::OrIOp>(loc, any, large);
    auto branch = scf::IfOp::create(b, loc, any, /*withElseRegion=*/false);
    b.setInsertionPointToStart(&branch.getThenRegion().front());
    LLVM::CallIntrinsicOp::create(b, loc, b.getStringAttr("llvm.x86.sse.sfence"), ValueRange());
  }
  return failure(broken);
}

// Stores to views larger than this may bypass the caches (maySkipCaches). Cached stores would evict
// all other data from the last-level cache, and be evicted themselves before they are read.
static constexpr int64_t kStreamedBytes = int64_t{32} << 20;

void TileLowering::readArguments(Value slots) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  int32_t next = 0;
  auto slot = [&](Type type) -> Value {
    Value at =
        LLVM::GEPOp::create(b, loc, pointer, b.getI64Type(), slots, ArrayRef<LLVM::GEPArg>{next++});
    return LLVM::LoadOp::create(b, loc, type, at);
  };
  for (BlockArgument argument : source.getArguments()) {
    auto viewType = dyn_cast<tile::ViewType>(argument.getType());
    if (!viewType) {
      Type element = argument.getType();
      Value value = slot(storageType(element));  // the value is in the slot's low bytes
      scalars[argument] = registers.fromMemory(loc, value, element);
      continue;
    }
    View& view = views[argument];
    view.pointer = slot(pointer);
    for (int64_t size : viewType.getShape()) {
      Value value = slot(b.getI64Type());
      view.dims.push_back(ShapedType::isDynamic(size) ? value : i64(size));
    }
    for (int64_t stride : viewType.getStrides()) {
      Value value = slot(b.getI64Type());
      view.strides.push_back(ShapedType::isDynamic(stride) ? value : i64(stride));
    }
    Value span = i64(0);
    for (auto [size, stride] : llvm::zip_equal(view.dims, view.strides))
      span = b.createOrFold<arith::MaxSIOp>(loc, span, mul(size, stride));
    view.span = span;
    view.large = less(i64(kStreamedBytes / storageBytes(viewType.getElementType())), span);
  }
}

// Computes the y and z ids from the program's linear number. LLVM removes unused divisions.
void TileLowering::deriveSlowerIds(Value program) {
  Value rest = arith::DivUIOp::create(b, loc, program, toI64(grid[0]));
  Value size = toI64(grid[1]);
  programId[1] = arith::TruncIOp::create(b, loc, b.getI32Type(),
                                         arith::RemUIOp::create(b, loc, rest, size).getResult());
  programId[2] = arith::TruncIOp::create(b, loc, b.getI32Type(),
                                         arith::DivUIOp::create(b, loc, rest, size).getResult());
}

//===-- Scalar code -----------------------------------------------------------===//

void TileLowering::lowerBlock(Block* block) {
  for (const Step& step : plan.stepsOf(block)) {
    if (broken) return;
    if (step.op) {
      loc = step.op->getLoc();
      lowerOp(step.op);
    } else {
      lowerGroup(plan.group(step.group));
    }
  }
}

void TileLowering::lowerOp(Operation* op) {
  if (auto loop = dyn_cast<scf::ForOp>(op)) return lowerFor(loop);
  if (auto loop = dyn_cast<scf::WhileOp>(op)) return lowerWhile(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op)) return lowerIf(branch);
  if (op->hasTrait<OpTrait::IsTerminator>()) return;  // the parent op's lowering emits it
  if (isa<tile::LoadTileOp, tile::StoreTileOp>(op)) {
    accesses[op] = prepare(op);
    Type moved =
        isa<tile::LoadTileOp>(op) ? op->getResult(0).getType() : op->getOperand(0).getType();
    if (isa<RankedTensorType>(moved)) return;
  }
  lowerScalar(op);
}

void TileLowering::lowerSlice(tile::SliceOp op) {
  View view = views[op.getView()];
  Value& size = view.dims[op.getAxis()];
  const auto clamped = [&](Value number, Value least) -> Value {
    return b.createOrFold<arith::MinSIOp>(loc, b.createOrFold<arith::MaxSIOp>(loc, number, least),
                                          size);
  };
  Value begin = clamped(scalar(op.getBegin()), i64(0)), end = clamped(scalar(op.getEnd()), begin);
  view.pointer = LLVM::GEPOp::create(b, loc, view.pointer.getType(),
                                     storageType(op.getView().getType().getElementType()),
                                     view.pointer, mul(begin, view.strides[op.getAxis()]));
  size = sub(end, begin);
  if (const int64_t step = tile::stepOf(op); step != 1) {
    size = LLVM::UDivOp::create(b, loc, add(size, i64(step - 1)), i64(step));
    view.strides[op.getAxis()] = mul(view.strides[op.getAxis()], i64(step));
  }
  views[op.getResult()] = std::move(view);
}

void TileLowering::lowerScalar(Operation* op) {
  if (isa<tile::AssumeOp>(op)) return;
  if (auto slice = dyn_cast<tile::SliceOp>(op)) return lowerSlice(slice);
  if (isa<tile::LoadTileOp, tile::StoreTileOp, tile::LoadOp, tile::StoreOp>(op) || isAtomic(op))
    return lowerScalarAccess(op);
  if (auto print = dyn_cast<tile::PrintOp>(op)) return lowerPrint(print);
  Value value;
  if (auto number = dyn_cast<arith::ConstantOp>(op)) {
    if (isa<RankedTensorType>(number.getType())) return;
    value = registers.constant(loc, number.getValue());
  } else if (auto id = dyn_cast<tile::ProgramIdOp>(op)) {
    value = programId[id.getAxis()];
  } else if (auto count = dyn_cast<tile::NumProgramsOp>(op)) {
    value = grid[count.getAxis()];
  } else if (auto dim = dyn_cast<tile::DimOp>(op)) {
    value = views[dim.getView()].dims[dim.getAxis()];
  } else if (auto stride = dyn_cast<tile::StrideOp>(op)) {
    value = views[stride.getView()].strides[stride.getAxis()];
  } else if (auto base = dyn_cast<tile::ViewPtrOp>(op)) {
    value = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), views[base.getView()].pointer);
  } else if (op->getNumResults() == 1 && op->getNumRegions() == 0) {
    value = registers.emit(op, scalarsOf(op->getOperands()), 1);
  } else {
    op->emitOpError("has no lowering for the CPU");
  }
  if (!value)
    broken = true;
  else
    scalars[op->getResult(0)] = value;
}

//===-- Control flow ----------------------------------------------------------===//

// Lowers the block of region `from` into `into`. `arguments` replace the region's scalar arguments.
// The caller creates the terminator.
void TileLowering::fillRegion(Region& from, Block* into, ValueRange arguments) {
  size_t next = 0;
  for (BlockArgument argument : from.getArguments())
    if (!isa<RankedTensorType>(argument.getType())) scalars[argument] = arguments[next++];
  b.setInsertionPointToEnd(into);
  lowerBlock(&from.front());
}

void TileLowering::lowerFor(scf::ForOp loop) {
  OpBuilder::InsertionGuard guard(b);
  Location at = loc;
  auto created =
      scf::ForOp::create(b, at, scalar(loop.getLowerBound()), scalar(loop.getUpperBound()),
                         scalar(loop.getStep()), scalarsOf(loop.getInitArgs()));
  if (Block* body = created.getBody(); body->mightHaveTerminator()) body->getTerminator()->erase();
  SmallVector<Value> arguments{created.getInductionVar()};
  llvm::append_range(arguments, created.getRegionIterArgs());
  fillRegion(loop.getRegion(), created.getBody(), arguments);
  scf::YieldOp::create(b, at, scalarsOf(loop.getBody()->getTerminator()->getOperands()));
  size_t next = 0;
  for (Value result : loop.getResults())
    if (!isa<RankedTensorType>(result.getType())) scalars[result] = created.getResult(next++);
}

void TileLowering::lowerWhile(scf::WhileOp loop) {
  OpBuilder::InsertionGuard guard(b);
  Location at = loc;
  auto created =
      scf::WhileOp::create(b, at, scalarTypes(loop.getResultTypes()), scalarsOf(loop.getInits()));
  auto block = [&](Region& region, TypeRange types) {
    SmallVector<Location> locations(types.size(), at);
    return b.createBlock(&region, region.end(), types, locations);
  };
  Block* before = block(created.getBefore(), scalarTypes(loop.getInits().getTypes()));
  fillRegion(loop.getBefore(), before, before->getArguments());
  auto condition = loop.getConditionOp();
  scf::ConditionOp::create(b, at, scalar(condition.getCondition()), scalarsOf(condition.getArgs()));
  Block* after = block(created.getAfter(), scalarTypes(loop.getResultTypes()));
  fillRegion(loop.getAfter(), after, after->getArguments());
  scf::YieldOp::create(b, at, scalarsOf(loop.getAfterBody()->getTerminator()->getOperands()));
  size_t next = 0;
  for (Value result : loop.getResults())
    if (!isa<RankedTensorType>(result.getType())) scalars[result] = created.getResult(next++);
}

void TileLowering::lowerIf(scf::IfOp branch) {
  OpBuilder::InsertionGuard guard(b);
  Location at = loc;
  bool hasElse = !branch.getElseRegion().empty();
  auto created =
      scf::IfOp::create(b, at, scalarTypes(branch.getResultTypes()), scalar(branch.getCondition()),
                        /*addThenBlock=*/true, /*addElseBlock=*/hasElse);
  auto fill = [&](Region& from, Region& into) {
    Block* block = &into.front();
    if (block->mightHaveTerminator()) block->getTerminator()->erase();
    fillRegion(from, block, {});
    scf::YieldOp::create(b, at, scalarsOf(from.front().getTerminator()->getOperands()));
  };
  fill(branch.getThenRegion(), created.getThenRegion());
  if (hasElse) fill(branch.getElseRegion(), created.getElseRegion());
  size_t next = 0;
  for (Value result : branch.getResults())
    if (!isa<RankedTensorType>(result.getType())) scalars[result] = created.getResult(next++);
}

}  // namespace ligerdsl::compiler::cpu
