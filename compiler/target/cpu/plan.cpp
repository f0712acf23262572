// Which tiles live in buffers, and which sinks share a loop nest.
//
// Rule 1 (a tile is a value, memory is not). A load is evaluated inside its consumers' loops only if no write that may touch
// its memory can run between the load's place in the program and that evaluation; a write in the consumers' own loop is
// harmless when it reaches each element at the very index where it was read. Otherwise the load is copied at its place.
// Rule 2 (loop-carried tiles). A carried tile has one buffer; a yielded tile is written straight into it if evaluating it
// reads carried buffers only at the index being written, and through a temporary otherwise.
//
// Both depend on which sinks share a loop, and that on which tiles are materialised: schedule, look for values that must or
// should be materialised, and repeat until there are none. The set only grows, so this ends.
#include "compiler/target/cpu/plan.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

static RankedTensorType tileType(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

int laneDimension(ArrayRef<int64_t> shape) {
  for (int dim = static_cast<int>(shape.size()) - 1; dim >= 0; --dim)
    if (shape[dim] > 1) return dim;
  return -1;
}

bool isElementwise(Operation* op) {
  return isa<tile::AddPtrOp>(op) || (op->getNumResults() == 1 && OpTrait::hasElementwiseMappableTraits(op));
}

int64_t storageBytes(Type element) {
  return element.isIntOrFloat() ? (element.getIntOrFloatBitWidth() + 7) / 8 : 8;
}

// Worth keeping instead of computing again in another loop.
static bool isExpensive(Operation* op) {
  return isa<math::ExpOp, math::Exp2Op, math::LogOp, math::Log2Op, math::TanhOp, math::ErfOp, math::SqrtOp, math::RsqrtOp,
             tile::LoadOp, arith::RemFOp, arith::RemSIOp, arith::DivSIOp>(op);
}

static bool isLoop(Operation* op) { return isa<scf::ForOp, scf::WhileOp>(op); }

Plan::Plan(func::FuncOp function) : function(function), alias(function) {
  number(function);
  assignStructuralBuffers();
  do {
    schedule();
  } while (materialiseMore());
  measureLifetimes();
  placeBuffers();
}

void Plan::number(Operation* op) {
  int64_t begin = counter++;
  if (isa<tile::StoreTileOp, tile::StoreOp, tile::AtomicRMWOp>(op)) writes.push_back(op);
  for (Region& region : op->getRegions())
    for (Block& block : region)
      for (Operation& inner : block) number(&inner);
  span[op] = {begin, counter++};
}

void Plan::giveBuffer(Value tile, Region* home) {
  auto type = tileType(tile);
  if (!type) return;
  Buffer& buffer = storage.emplace_back();
  buffer.element = type.getElementType();
  buffer.shape.assign(type.getShape().begin(), type.getShape().end());
  buffer.home = home;
  buffer.bytes = type.getNumElements() * storageBytes(buffer.element);
  buffers[tile] = &buffer;
}

// In `while`, the tiles of the first region and of the second have buffers of their own; one that the first region hands on
// untouched needs no copy, so there the two are one.
void Plan::carryThroughWhile(scf::WhileOp loop) {
  auto condition = loop.getConditionOp();
  for (auto [i, argument] : llvm::enumerate(loop.getBeforeArguments())) giveBuffer(argument, loop->getParentRegion());
  for (auto [i, forwarded] : llvm::enumerate(condition.getArgs())) {
    if (!tileType(forwarded)) continue;
    Value result = loop.getResult(i), argument = loop.getAfterArguments()[i];
    if (i < loop.getBeforeArguments().size() && forwarded == loop.getBeforeArguments()[i])
      buffers[result] = buffers.lookup(forwarded);
    else
      giveBuffer(result, loop->getParentRegion());
    buffers[argument] = buffers.lookup(result);
  }
}

void Plan::assignStructuralBuffers() {
  function.walk([&](Operation* op) {
    if (isa<tile::ReduceOp, tile::ScanOp, scf::IfOp>(op)) {
      for (Value result : op->getResults()) giveBuffer(result, op->getParentRegion());
    } else if (isa<tile::AtomicRMWOp>(op)) {
      if (!op->getResult(0).use_empty()) giveBuffer(op->getResult(0), op->getParentRegion());
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      for (auto [argument, result] : llvm::zip(loop.getRegionIterArgs(), loop.getResults())) {
        giveBuffer(result, op->getParentRegion());
        if (Buffer* buffer = buffers.lookup(result)) buffers[argument] = buffer;
      }
    } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
      carryThroughWhile(loop);
    }
  });
}

//===-- What an evaluation reads --------------------------------------------------------------------------------------===//

using Seen = llvm::DenseSet<std::pair<Value, int>>;

void Plan::collect(Value value, bool identity, Reads& reads, Seen& seen) const {
  if (!tileType(value) || !seen.insert({value, identity}).second) return;
  if (Buffer* buffer = buffers.lookup(value))
    reads.buffers.push_back({buffer, identity});
  else if (Operation* op = value.getDefiningOp())
    collectOp(op, identity, reads, seen);
}

void Plan::collectOp(Operation* op, bool identity, Reads& reads, Seen& seen) const {
  reads.ops.push_back(op);
  if (isa<tile::LoadTileOp, tile::LoadOp>(op)) reads.loads.push_back({op, identity});
  bool reshapes = isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::PermuteOp>(op);
  for (Value operand : op->getOperands()) collect(operand, identity && !reshapes, reads, seen);
}

Plan::Reads Plan::readsOf(const Sink& sink) const {
  Reads reads;
  Seen seen;
  if (sink.source) {
    reads.buffers.push_back({sink.source, true});
  } else if (sink.kind != SinkKind::materialise) {
    for (Value operand : sink.op->getOperands()) collect(operand, true, reads, seen);
  } else if (bufferOf(sink.value) == sink.target && sink.value.getDefiningOp()) {
    collectOp(sink.value.getDefiningOp(), true, reads, seen);  // the value fills its own buffer
  } else {
    collect(sink.value, true, reads, seen);
  }
  return reads;
}

//===-- Grouping ------------------------------------------------------------------------------------------------------===//

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
  return llvm::any_of(op->getOperands(), [&](Value operand) { return pendingResults.contains(operand); });
}

bool Plan::pendingWritesMayTouch(Operation* load) const {
  return pending && llvm::any_of(pending->sinks, [&](const Sink& sink) {
           return isa<tile::StoreTileOp, tile::StoreOp, tile::AtomicRMWOp>(sink.op) &&
                  sink.kind != SinkKind::materialise && alias.mayAlias(load, sink.op);
         });
}

// `writer` writes what evaluating `reader` may read at another index than the one being written.
bool Plan::conflicts(const Sink& writer, const Sink& reader) const {
  Reads reads = readsOf(reader);
  if (writer.kind == SinkKind::materialise)
    return llvm::any_of(reads.buffers, [&](auto& read) { return read.buffer == writer.target && !read.identity; });
  if (writer.kind != SinkKind::storeTile && writer.kind != SinkKind::scatter) return false;
  return llvm::any_of(reads.loads, [&](auto& read) {
    return !alias.readsConstantMemory(read.load) && alias.mayAlias(read.load, writer.op) &&
           !(read.identity && alias.sameElements(read.load, writer.op));
  });
}

bool Plan::mayJoin(const Sink& sink, ArrayRef<int64_t> shape) const {
  if (!pending || sink.kind == SinkKind::ordered || pending->sinks.back().kind == SinkKind::ordered) return false;
  if (ArrayRef(pending->shape) != shape) return false;
  const Sink& head = pending->sinks.front();
  if (sink.kind == SinkKind::across || head.kind == SinkKind::across) {
    if (sink.kind != head.kind) return false;
    if (cast<tile::ReduceOp>(sink.op).getAxis() != cast<tile::ReduceOp>(head.op).getAxis()) return false;
  }
  for (const Sink& other : pending->sinks) {
    if (conflicts(sink, other) || conflicts(other, sink)) return false;
    bool bothStore = (sink.kind == SinkKind::storeTile || sink.kind == SinkKind::scatter) &&
                     (other.kind == SinkKind::storeTile || other.kind == SinkKind::scatter);
    if (bothStore && alias.mayAlias(sink.op, other.op) && !alias.sameElements(sink.op, other.op)) return false;
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

void Plan::scheduleOp(Operation* op) {
  if (usesPendingResult(op)) flush();
  if (isLoop(op) || isa<scf::IfOp>(op)) {
    flush();
    if (isLoop(op)) {
      ValueRange inits = isa<scf::ForOp>(op) ? ValueRange(cast<scf::ForOp>(op).getInitArgs()) : ValueRange(op->getOperands());
      ValueRange arguments = isa<scf::ForOp>(op) ? ValueRange(cast<scf::ForOp>(op).getRegionIterArgs())
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
  bool reads = isa<tile::LoadTileOp, tile::LoadOp, tile::AtomicRMWOp>(op);
  if (reads && pendingWritesMayTouch(op)) flush();
  if (touchesTiles) return scheduleTile(op);
  if (isa<tile::StoreTileOp, tile::StoreOp, tile::AtomicRMWOp, tile::PrintOp>(op)) flush();
  current->push_back({op});
}

void Plan::scheduleTile(Operation* op) {
  if (isa<tile::LoadTileOp, tile::StoreTileOp>(op)) current->push_back({op});  // addresses and extents
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
  } else if (isa<tile::ScanOp, tile::AtomicRMWOp, tile::PrintOp>(op)) {
    for (Value operand : op->getOperands())
      if (tileType(operand)) return ordered(shapeOf(operand));
  } else {
    for (Value result : op->getResults())
      if (materialised.contains(result))
        addSink({SinkKind::materialise, op, result, buffers.lookup(result)}, shapeOf(result));
  }
}

// The tiles that a terminator hands on, with the buffers they must end up in.
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
    if (tileType(value) && buffers.lookup(value) != buffers.lookup(target)) result.push_back({value, buffers.lookup(target)});
  return result;
}

void Plan::scheduleYields(Operation* terminator) {
  auto yields = yieldedTiles(terminator);
  auto shapeOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape(); };
  SmallVector<std::pair<Value, Buffer*>> direct, copies;
  for (auto [value, target] : yields) {
    Reads reads = readsOf({SinkKind::materialise, terminator, value, target});
    bool inPlace = llvm::all_of(reads.buffers, [&](auto& read) {
      bool isTarget = llvm::any_of(yields, [&](auto& yield) { return yield.second == read.buffer; });
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
  for (auto& [value, target] : direct) addSink({SinkKind::materialise, terminator, value, target}, shapeOf(value));
  if (!copies.empty()) flush();
  for (auto& [value, target] : copies) {
    Sink copy{SinkKind::materialise, terminator, value, target};
    copy.source = temporaries.lookup(value);
    addSink(copy, shapeOf(value));
  }
  flush();
}

//===-- What must be materialised -------------------------------------------------------------------------------------===//

// Until when a value that lives in `home` is in use by an op: to the end of the outermost loop that the op sits in and the
// value does not.
int64_t Plan::endOfUse(Operation* user, Region* home) const {
  int64_t end = span.lookup(user).first;
  for (Operation* parent = user->getParentOp(); parent && user->getParentRegion() != home; parent = user->getParentOp()) {
    if (isLoop(parent)) end = span.lookup(parent).second;
    user = parent;
  }
  return end;
}

bool Plan::isHazard(Operation* load, bool identity, int groupIndex) const {
  if (alias.readsConstantMemory(load)) return false;
  const Group& group = groups[groupIndex];
  int64_t begin = span.lookup(load).first, end = endOfUse(group.sinks.back().op, load->getParentRegion());
  for (Operation* write : writes) {
    int64_t at = span.lookup(write).first;
    if (at <= begin || at > end || !alias.mayAlias(load, write)) continue;
    bool inGroup = llvm::any_of(group.sinks, [&](const Sink& sink) {
      return sink.op == write && (sink.kind == SinkKind::storeTile);
    });
    if (inGroup && identity && alias.sameElements(load, write) && end == span.lookup(group.sinks.back().op).first) continue;
    return true;
  }
  return false;
}

bool Plan::materialiseMore() {
  llvm::DenseMap<Operation*, int> evaluations;
  SmallVector<Value> wanted;
  for (auto [index, group] : llvm::enumerate(groups)) {
    llvm::DenseSet<Operation*> evaluated;
    for (const Sink& sink : group.sinks) {
      Reads reads = readsOf(sink);
      for (auto& [load, identity] : reads.loads)
        if (!materialised.contains(load->getResult(0)) && isHazard(load, identity, static_cast<int>(index)))
          wanted.push_back(load->getResult(0));
      evaluated.insert(reads.ops.begin(), reads.ops.end());
    }
    for (Operation* op : evaluated) {
      bool inDeeperLoop = endOfUse(group.sinks[0].op, op->getParentRegion()) != span.lookup(group.sinks[0].op).first;
      if (isExpensive(op)) evaluations[op] += inDeeperLoop ? 2 : 1;
    }
  }
  for (auto [op, count] : evaluations)
    if (count > 1) wanted.push_back(op->getResult(0));
  bool changed = false;
  for (Value value : wanted) {
    if (!materialised.insert(value).second) continue;
    giveBuffer(value, value.getDefiningOp()->getParentRegion());
    changed = true;
  }
  return changed;
}

//===-- Arena ---------------------------------------------------------------------------------------------------------===//

void Plan::measureLifetimes() {
  auto touch = [&](Buffer* buffer, int64_t first, Operation* user) {
    if (!buffer) return;
    buffer->birth = std::min(buffer->birth, first);
    buffer->death = std::max(buffer->death, endOfUse(user, buffer->home));
  };
  for (const Group& group : groups) {
    for (const Sink& sink : group.sinks) {
      Operation* last = group.sinks.back().op;
      for (auto& read : readsOf(sink).buffers) touch(read.buffer, group.first, last);
      touch(sink.target, group.first, last);
      if (sink.source) touch(sink.source, group.first, last);
      if (sink.kind != SinkKind::materialise)
        for (Value result : sink.op->getResults()) touch(bufferOf(result), group.first, last);
    }
  }
  // A carried buffer keeps its value around the back edge even where the body reads nothing of it.
  function.walk([&](Operation* op) {
    if (!isLoop(op) && !isa<scf::IfOp>(op)) return;
    for (Value result : op->getResults())
      if (Buffer* buffer = bufferOf(result)) {
        buffer->birth = std::min(buffer->birth, span[op].first);
        buffer->death = std::max(buffer->death, span[op].second);
      }
    if (auto loop = dyn_cast<scf::WhileOp>(op))
      for (Value argument : loop.getBeforeArguments())
        if (Buffer* buffer = bufferOf(argument)) {
          buffer->birth = std::min(buffer->birth, span[op].first);
          buffer->death = std::max(buffer->death, span[op].second);
        }
  });
}

// First fit by time of birth; buffers whose lives overlap share no byte.
void Plan::placeBuffers() {
  SmallVector<Buffer*> order, placed;
  for (Buffer& buffer : storage)
    if (buffer.death >= 0) order.push_back(&buffer);
  llvm::stable_sort(order, [](Buffer* a, Buffer* b) { return a->birth < b->birth; });
  for (Buffer* buffer : order) {
    SmallVector<Buffer*> rivals;
    for (Buffer* other : placed)
      if (other->birth <= buffer->death && buffer->birth <= other->death) rivals.push_back(other);
    llvm::sort(rivals, [](Buffer* a, Buffer* b) { return a->offset < b->offset; });
    int64_t offset = 0;
    for (Buffer* rival : rivals) {
      if (offset + buffer->bytes <= rival->offset) break;
      offset = std::max<int64_t>(offset, llvm::alignTo<64>(rival->offset + rival->bytes));
    }
    buffer->offset = offset;
    placed.push_back(buffer);
    arena = std::max<int64_t>(arena, llvm::alignTo<64>(offset + buffer->bytes));
  }
}

}  // namespace ligerdsl::compiler::cpu
