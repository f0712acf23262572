// Lowers scf loops and conditionals to the same ops, with every carried tile flattened into its
// pieces. Also lowers program ids and counts.
#include "compiler/analysis/shared_buffer.h"
#include "compiler/target/nvptx/thread_lowering.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

SmallVector<Value> flatten(ThreadLowering& t, ValueRange values) {
  SmallVector<Value> flat;
  for (Value value : values) llvm::append_range(flat, t.pieces(value));
  return flat;
}

SmallVector<Type> flattenTypes(ThreadLowering& t, TypeRange types) {
  SmallVector<Type> flat;
  for (Type type : types) flat.append(t.pieceCount(type), t.pieceType(type));
  return flat;
}

// Defines `originals` by consecutive pieces of `flat`.
void unflatten(ThreadLowering& t, ValueRange originals, ValueRange flat) {
  for (Value original : originals) {
    int64_t count = t.pieceCount(original.getType());
    t.define(original, Pieces(flat.take_front(count)));
    flat = flat.drop_front(count);
  }
}

// Lowers `source` into the empty region `target`, whose block arguments are the pieces of the
// source's arguments. `finish` creates the terminator from the source's terminator.
LogicalResult lowerRegion(ThreadLowering& t, Region& source, Region& target,
                          llvm::function_ref<void(Operation* terminator)> finish,
                          bool ownThread = false) {
  OpBuilder::InsertionGuard guard(t.b);
  Block& from = source.front();
  SmallVector<Type> types = flattenTypes(t, from.getArgumentTypes());
  Block* to =
      t.b.createBlock(&target, target.end(), types, SmallVector<Location>(types.size(), t.loc));
  unflatten(t, from.getArguments(), to->getArguments());
  const auto lower = [&] { return t.lowerBlock(from); };
  if (failed(ownThread ? t.withOwnThread(lower) : lower())) return failure();
  t.loc = from.getTerminator()->getLoc();
  finish(from.getTerminator());
  return success();
}

void yield(ThreadLowering& t, Operation* terminator) {
  scf::YieldOp::create(t.b, t.loc, flatten(t, terminator->getOperands()));
}

// Disables LLVM's unrolling of a loop whose author gave an unroll count. The pass tile-unroll-loops
// has already unrolled it, or emitted a remark.
void annotateUnroll(scf::ForOp from, scf::ForOp to) {
  if (!from->hasAttr(tile::kUnrollAttr)) return;
  MLIRContext* context = from.getContext();
  auto unroll = LLVM::LoopUnrollAttr::get(context, /*disable=*/BoolAttr::get(context, true), {}, {},
                                          {}, {}, {}, {});
  to->setAttr("llvm.loop_annotation",
              LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, unroll, {}, {}, {}, {}, {}, {}, {},
                                            {}, {}, {}, {}));
}

LogicalResult lowerFor(ThreadLowering& t, scf::ForOp op) {
  auto loop =
      scf::ForOp::create(t.b, t.loc, t.scalar(op.getLowerBound()), t.scalar(op.getUpperBound()),
                         t.scalar(op.getStep()), flatten(t, op.getInitArgs()));
  annotateUnroll(op, loop);
  loop.getRegion().front().erase();
  Location loc = t.loc;
  const bool own = op->hasAttr(kTilesAttr);
  if (failed(lowerRegion(
          t, op.getRegion(), loop.getRegion(), [&](Operation* terminator) { yield(t, terminator); },
          own)))
    return failure();
  t.loc = loc;
  unflatten(t, op.getResults(), loop.getResults());
  return success();
}

LogicalResult lowerIf(ThreadLowering& t, scf::IfOp op) {
  auto branch = scf::IfOp::create(t.b, t.loc, flattenTypes(t, op.getResultTypes()),
                                  t.scalar(op.getCondition()),
                                  /*addThenBlock=*/false, /*addElseBlock=*/false);
  for (unsigned i = 0; i < 2; ++i) {
    if (op->getRegion(i).empty()) continue;
    if (failed(lowerRegion(t, op->getRegion(i), branch->getRegion(i),
                           [&](Operation* terminator) { yield(t, terminator); })))
      return failure();
  }
  unflatten(t, op.getResults(), branch.getResults());
  return success();
}

LogicalResult lowerWhile(ThreadLowering& t, scf::WhileOp op) {
  auto loop = scf::WhileOp::create(t.b, t.loc, flattenTypes(t, op.getResultTypes()),
                                   flatten(t, op.getInits()));
  auto condition = [&](Operation* terminator) {
    auto from = cast<scf::ConditionOp>(terminator);
    scf::ConditionOp::create(t.b, t.loc, t.scalar(from.getCondition()), flatten(t, from.getArgs()));
  };
  if (failed(lowerRegion(t, op.getBefore(), loop.getBefore(), condition)) ||
      failed(lowerRegion(t, op.getAfter(), loop.getAfter(),
                         [&](Operation* terminator) { yield(t, terminator); })))
    return failure();
  unflatten(t, op.getResults(), loop.getResults());
  return success();
}

// If num_ctas > 1, each cluster runs one program. The CTAs of a cluster are adjacent along x.
LogicalResult lowerProgramId(ThreadLowering& t, tile::ProgramIdOp op) {
  Type i32 = t.b.getI32Type();
  Value id;
  switch (op.getAxis()) {
    case 0:
      id = t.options.num_ctas > 1 ? NVVM::ClusterIdXOp::create(t.b, t.loc, i32).getResult()
                                  : NVVM::BlockIdXOp::create(t.b, t.loc, i32).getResult();
      break;
    case 1:
      id = NVVM::BlockIdYOp::create(t.b, t.loc, i32);
      break;
    default:
      id = NVVM::BlockIdZOp::create(t.b, t.loc, i32);
      break;
  }
  t.define(op, {id});
  return success();
}

LogicalResult lowerNumPrograms(ThreadLowering& t, tile::NumProgramsOp op) {
  Type i32 = t.b.getI32Type();
  Value count;
  switch (op.getAxis()) {
    case 0:
      count = t.options.num_ctas > 1 ? NVVM::ClusterDimXOp::create(t.b, t.loc, i32).getResult()
                                     : NVVM::GridDimXOp::create(t.b, t.loc, i32).getResult();
      break;
    case 1:
      count = NVVM::GridDimYOp::create(t.b, t.loc, i32);
      break;
    default:
      count = NVVM::GridDimZOp::create(t.b, t.loc, i32);
      break;
  }
  t.define(op, {count});
  return success();
}

}  // namespace

void addControlFlowLowerings(LoweringTable& table) {
  table.add<scf::ForOp, lowerFor>();
  table.add<scf::IfOp, lowerIf>();
  table.add<scf::WhileOp, lowerWhile>();
  table.add<tile::ProgramIdOp, lowerProgramId>();
  table.add<tile::NumProgramsOp, lowerNumPrograms>();
}

}  // namespace ligerdsl::compiler::nvptx
