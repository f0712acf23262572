// Groups the sinks of each block that share a loop nest. At most one group is open for
// more sinks. An op closes it if the op can neither join it nor run before it.
#include "compiler/analysis/effects.h"
#include "compiler/dialect/atomic.h"
#include "compiler/target/cpu/plan.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

void Plan::schedule() {
  groups.clear();
  steps.clear();
  function.walk<WalkOrder::PreOrder>([&](Operation* op) {
    if (isa<tile::ReduceOp, tile::ScanOp>(op)) return WalkResult::skip();
    for (Region& region : op->getRegions())
      for (Block& block : region) scheduleBlock(&block);
    return WalkResult::advance();
  });
}

void Plan::scheduleBlock(Block* block) {
  current = &steps[block];
  for (Operation& op : *block) scheduleOp(&op);
  flush();
}

void Plan::flush() {
  if (!pending) return;
  current->push_back({nullptr, static_cast<int>(groups.size())});
  groups.push_back(std::move(*pending));
  pending.reset();
  pendingResults.clear();
}

bool Plan::usesPendingResult(Operation* op) const {
  return llvm::any_of(op->getOperands(),
                      [&](Value operand) { return pendingResults.contains(operand); });
}

bool Plan::pendingWritesMayTouch(Operation* load) const {
  return pending && llvm::any_of(pending->sinks, [&](const Sink& sink) {
           return sink.kind != SinkKind::materialise && writesMemory(sink.op) &&
                  alias.mayAlias(load, sink.op);
         });
}

// Returns true if `reader` may read, at another index, memory that `writer` writes.
bool Plan::conflicts(const Sink& writer, const Sink& reader) const {
  Reads reads = readsOf(reader);
  if (writer.kind == SinkKind::materialise)
    return llvm::any_of(reads.buffers,
                        [&](auto& read) { return read.buffer == writer.target && !read.identity; });
  if (writer.kind != SinkKind::storeTile && writer.kind != SinkKind::scatter) return false;
  return llvm::any_of(reads.loads, [&](auto& read) {
    return !alias.readsConstantMemory(read.load) && alias.mayAlias(read.load, writer.op) &&
           !(read.identity && alias.sameElements(read.load, writer.op));
  });
}

bool Plan::mayJoin(const Sink& sink, ArrayRef<int64_t> shape) const {
  if (!pending || sink.kind == SinkKind::ordered || pending->sinks.back().kind == SinkKind::ordered)
    return false;
  if (ArrayRef(pending->shape) != shape) return false;
  const Sink& head = pending->sinks.front();
  if (sink.kind == SinkKind::across || head.kind == SinkKind::across) {
    if (sink.kind != head.kind) return false;
    if (cast<tile::ReduceOp>(sink.op).getAxis() != cast<tile::ReduceOp>(head.op).getAxis())
      return false;
  }
  for (const Sink& other : pending->sinks) {
    if (conflicts(sink, other) || conflicts(other, sink)) return false;
    bool bothStore = (sink.kind == SinkKind::storeTile || sink.kind == SinkKind::scatter) &&
                     (other.kind == SinkKind::storeTile || other.kind == SinkKind::scatter);
    if (bothStore && alias.mayAlias(sink.op, other.op) && !alias.sameElements(sink.op, other.op))
      return false;
  }
  return true;
}

void Plan::addSink(Sink sink, ArrayRef<int64_t> shape) {
  if (!mayJoin(sink, shape)) flush();
  if (!pending) {
    pending.emplace();
    pending->shape.assign(shape.begin(), shape.end());
    pending->block = sink.op->getBlock();
    pending->first = span[sink.op].first;
  }
  pending->last = span[sink.op].first;
  if (sink.kind != SinkKind::materialise)
    for (Value result : sink.op->getResults()) pendingResults.insert(result);
  pending->sinks.push_back(sink);
}

// Returns true if `op` has no loop of its own, because the loops of its readers evaluate it. If
// `op` needs a pending result, its readers must therefore come after the pending group.
bool Plan::isEvaluatedByReaders(Operation* op) const {
  if (!isElementwise(op) &&
      !isa<tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::PermuteOp>(
          op))
    return false;
  return llvm::all_of(op->getResults(),
                      [&](Value result) { return tileType(result) && !bufferOf(result); });
}

void Plan::scheduleOp(Operation* op) {
  if (usesPendingResult(op)) {
    if (isEvaluatedByReaders(op)) {
      for (Value result : op->getResults()) pendingResults.insert(result);
      return;
    }
    flush();
  }
  if (isLoop(op) || isa<scf::IfOp>(op)) {
    flush();
    if (isLoop(op)) {
      ValueRange inits = isa<scf::ForOp>(op) ? ValueRange(cast<scf::ForOp>(op).getInitArgs())
                                             : ValueRange(op->getOperands());
      ValueRange arguments = isa<scf::ForOp>(op)
                                 ? ValueRange(cast<scf::ForOp>(op).getRegionIterArgs())
                                 : ValueRange(cast<scf::WhileOp>(op).getBeforeArguments());
      for (auto [init, argument] : llvm::zip_equal(inits, arguments))
        if (auto type = tileType(init))
          addSink({SinkKind::materialise, op, init, buffers.lookup(argument)}, type.getShape());
      flush();
    }
    current->push_back({op});
    return;
  }
  if (op->hasTrait<OpTrait::IsTerminator>()) {
    scheduleYields(op);
    current->push_back({op});
    return;
  }
  bool touchesTiles = llvm::any_of(op->getOperandTypes(), llvm::IsaPred<RankedTensorType>) ||
                      llvm::any_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>);
  if (readsMemory(op) && pendingWritesMayTouch(op)) flush();
  if (touchesTiles) return scheduleTile(op);
  if (writesMemory(op) || isa<tile::PrintOp>(op)) flush();
  current->push_back({op});
}

LogicalResult verifySinks(func::FuncOp function) {
  WalkResult walk = function.walk([](Operation* op) {
    bool known =
        isa<tile::LoadTileOp, tile::LoadOp, tile::StoreTileOp, tile::StoreOp>(op) || isAtomic(op);
    if (known || !(readsMemory(op) || writesMemory(op))) return WalkResult::advance();
    op->emitOpError(
        "reads or writes memory, but has no loops on the CPU; give it a SinkKind in "
        "plan_schedule.cpp");
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

void Plan::scheduleTile(Operation* op) {
  if (isa<tile::LoadTileOp, tile::StoreTileOp>(op))
    current->push_back({op});  // for its addresses and extents
  auto shapeOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape(); };
  auto ordered = [&](ArrayRef<int64_t> shape) {
    addSink({SinkKind::ordered, op, {}}, shape);
    flush();
  };
  if (auto store = dyn_cast<tile::StoreTileOp>(op)) {
    addSink({SinkKind::storeTile, op, {}}, shapeOf(store.getValue()));
  } else if (auto store = dyn_cast<tile::StoreOp>(op)) {
    addSink({SinkKind::scatter, op, {}}, shapeOf(store.getPtr()));
  } else if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
    ArrayRef<int64_t> shape = shapeOf(reduce.getSources()[0]);
    bool alongLanes = laneDimension(shape) == static_cast<int>(reduce.getAxis());
    addSink({alongLanes ? SinkKind::reduce : SinkKind::across, op, {}}, shape);
  } else if (auto dot = dyn_cast<tile::DotOp>(op)) {
    ordered(shapeOf(dot.getResult()));
  } else if (isa<tile::ScanOp, tile::PrintOp>(op) || isAtomic(op)) {
    for (Value operand : op->getOperands())
      if (tileType(operand)) return ordered(shapeOf(operand));
  } else {
    for (Value result : op->getResults())
      if (materialised.contains(result))
        addSink({SinkKind::materialise, op, result, buffers.lookup(result)}, shapeOf(result));
  }
}

// Returns the tiles that a terminator yields and that are not yet in their target buffers, with
// these buffers.
SmallVector<std::pair<Value, Buffer*>> Plan::yieldedTiles(Operation* terminator) const {
  SmallVector<std::pair<Value, Buffer*>> result;
  Operation* parent = terminator->getParentOp();
  ValueRange values = terminator->getOperands(), targets;
  if (auto loop = dyn_cast<scf::ForOp>(parent)) {
    targets = loop.getRegionIterArgs();
  } else if (auto branch = dyn_cast<scf::IfOp>(parent)) {
    targets = branch.getResults();
  } else if (auto loop = dyn_cast<scf::WhileOp>(parent)) {
    bool isCondition = isa<scf::ConditionOp>(terminator);
    targets = isCondition ? ValueRange(loop.getResults()) : ValueRange(loop.getBeforeArguments());
    if (isCondition) values = values.drop_front();
  }
  for (auto [value, target] : llvm::zip(values, targets))
    if (tileType(value) && buffers.lookup(value) != buffers.lookup(target))
      result.push_back({value, buffers.lookup(target)});
  return result;
}

void Plan::scheduleYields(Operation* terminator) {
  auto yields = yieldedTiles(terminator);
  auto shapeOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape(); };
  SmallVector<std::pair<Value, Buffer*>> direct, copies;
  for (auto [value, target] : yields) {
    Reads reads = readsOf({SinkKind::materialise, terminator, value, target});
    bool inPlace = llvm::all_of(reads.buffers, [&](auto& read) {
      bool isTarget =
          llvm::any_of(yields, [&](auto& yield) { return yield.second == read.buffer; });
      return !isTarget || (read.buffer == target && read.identity);
    });
    (inPlace ? direct : copies).push_back({value, target});
  }
  for (auto& [value, target] : copies) {
    Buffer*& temporary = temporaries[value];
    if (!temporary) {
      Buffer& buffer = storage.emplace_back(*target);
      buffer.home = terminator->getParentRegion();
      buffer.birth = INT64_MAX;
      buffer.death = -1;
      temporary = &buffer;
    }
    addSink({SinkKind::materialise, terminator, value, temporary}, shapeOf(value));
  }
  if (!copies.empty()) flush();
  for (auto& [value, target] : direct)
    addSink({SinkKind::materialise, terminator, value, target}, shapeOf(value));
  if (!copies.empty()) flush();
  for (auto& [value, target] : copies) {
    Sink copy{SinkKind::materialise, terminator, value, target};
    copy.source = temporaries.lookup(value);
    addSink(copy, shapeOf(value));
  }
  flush();
}

}  // namespace ligerdsl::compiler::cpu
