// Decides which tiles have buffers and which sinks share a loop nest.
//
// Rule 1 (a tile is a value, memory is not). A load is evaluated inside its consumers' loops only
// if no write to its memory can run between the load and that evaluation. A store in the same loop
// is harmless if each iteration overwrites only elements that it has read itself. Otherwise the
// tile is copied to a buffer at the load.
//
// Rule 2 (loop-carried tiles). A carried tile has one buffer. The yielded value is written to it
// directly if its evaluation reads no other carried buffer, and reads this one only at the index
// being written. Otherwise the value is first written to a temporary buffer.
//
// Both rules depend on which sinks share a loop, and that depends on which tiles are materialised,
// that is, written to a buffer. The constructor therefore alternates between schedule() and
// materialiseMore() until nothing changes. The set of materialised tiles only grows, so the loop
// ends.
#include "compiler/target/cpu/plan.h"

#include <functional>

#include "compiler/analysis/effects.h"
#include "compiler/dialect/atomic.h"
#include "compiler/remarks.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

RankedTensorType tileType(Value value) {
  return dyn_cast<RankedTensorType>(value.getType());
}

int laneDimension(ArrayRef<int64_t> shape) {
  for (int dim = static_cast<int>(shape.size()) - 1; dim >= 0; --dim)
    if (shape[dim] > 1) return dim;
  return -1;
}

bool isElementwise(Operation* op) {
  return isa<tile::AddPtrOp>(op) ||
         (op->getNumResults() == 1 && OpTrait::hasElementwiseMappableTraits(op));
}

int64_t storageBytes(Type element) {
  return element.isIntOrFloat() ? (element.getIntOrFloatBitWidth() + 7) / 8 : 8;
}

// Returns true if it is cheaper to keep the result of `op` in a buffer than to compute it in a
// second loop.
static bool isExpensive(Operation* op) {
  if (isa<math::MathDialect>(op->getDialect()))
    return !isa<math::AbsFOp, math::AbsIOp, math::FloorOp, math::CeilOp, math::RoundEvenOp,
                math::FmaOp>(op);
  return isa<tile::LoadOp, arith::DivFOp, arith::RemFOp, arith::RemSIOp, arith::DivSIOp,
             arith::RemUIOp, arith::DivUIOp>(op);
}

bool isLoop(Operation* op) {
  return isa<scf::ForOp, scf::WhileOp>(op);
}

Plan::Plan(func::FuncOp function) : function(function), alias(function) {
  number(function);
  assignStructuralBuffers();
  do {
    schedule();
  } while (materialiseMore());
  findFirstReads();
  measureLifetimes();
  placeBuffers();
}

void Plan::findFirstReads() {
  for (const Group& group : groups)
    for (const Sink& sink : group.sinks)
      for (const Reads::Access& read : readsOf(sink).loads) {
        auto [entry, isNew] = firstReads.insert({read.load, group.first});
        if (!isNew) entry->second = std::min(entry->second, group.first);
      }
}

void Plan::number(Operation* op) {
  int64_t begin = counter++;
  if (writesMemory(op)) writes.push_back(op);
  if (readsMemory(op)) loads.push_back(op);
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

// The tiles of the two regions of an scf.while have separate buffers, unless the first region
// passes a tile on unchanged. Both regions then use one buffer, and no copy is needed.
void Plan::carryThroughWhile(scf::WhileOp loop) {
  auto condition = loop.getConditionOp();
  for (auto [i, argument] : llvm::enumerate(loop.getBeforeArguments()))
    giveBuffer(argument, loop->getParentRegion());
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
    if (isa<tile::ReduceOp, tile::ScanOp, tile::DotOp, scf::IfOp>(op)) {
      for (Value result : op->getResults()) giveBuffer(result, op->getParentRegion());
    } else if (isAtomic(op)) {
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
  // These ops read operands at other indices than the one being computed, so these operands need
  // buffers.
  function.walk([&](Operation* op) {
    const unsigned sources = isa<tile::GatherOp, tile::ShuffleXorOp>(op) ? 1
                             : isa<tile::DotOp>(op)                      ? 2
                                                                         : 0;
    for (Value source : op->getOperands().take_front(sources)) {
      if (buffers.lookup(source)) continue;
      giveBuffer(source, source.getParentRegion());
      materialised.insert(source);
    }
  });
}

//===-- Reads of an evaluation ------------------------------------------------===//

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
  // Other shape ops keep the order of the elements, and thus their addresses in a buffer.
  bool reorders = isa<tile::BroadcastOp, tile::PermuteOp, tile::GatherOp, tile::ShuffleXorOp>(op);
  for (Value operand : op->getOperands()) collect(operand, identity && !reorders, reads, seen);
}

Plan::Reads Plan::readsOf(const Sink& sink) const {
  Reads reads;
  Seen seen;
  if (sink.source) {
    reads.buffers.push_back({sink.source, true});
  } else if (sink.kind != SinkKind::materialise) {
    for (Value operand : sink.op->getOperands()) collect(operand, true, reads, seen);
  } else if (bufferOf(sink.value) == sink.target && sink.value.getDefiningOp()) {
    collectOp(sink.value.getDefiningOp(), true, reads, seen);  // fills its buffer
  } else {
    collect(sink.value, true, reads, seen);
  }
  return reads;
}

bool Plan::readsBackReshaped(const Group& group, const Buffer* target) const {
  Seen seen;
  std::function<bool(Value, bool)> reaches = [&](Value value, bool reshaped) {
    if (!tileType(value) || !seen.insert({value, reshaped}).second) return false;
    if (Buffer* buffer = buffers.lookup(value)) return reshaped && buffer == target;
    Operation* op = value.getDefiningOp();
    return op && llvm::any_of(op->getOperands(), [&](Value operand) {
             return reaches(operand, reshaped || isa<tile::ReshapeOp>(op));
           });
  };
  return llvm::any_of(group.sinks, [&](const Sink& sink) {
    if (sink.kind != SinkKind::materialise)
      return llvm::any_of(sink.op->getOperands(),
                          [&](Value operand) { return reaches(operand, false); });
    Operation* op = sink.value.getDefiningOp();
    if (!op || bufferOf(sink.value) != sink.target) return reaches(sink.value, false);
    return llvm::any_of(op->getOperands(),
                        [&](Value operand) { return reaches(operand, isa<tile::ReshapeOp>(op)); });
  });
}

//===-- Values that must be materialised --------------------------------------===//

// Returns the last position at which `user` reads a value defined in `home`. This is the end of the
// outermost loop in `home` around `user`, or the position of `user` if there is no such loop.
int64_t Plan::endOfUse(Operation* user, Region* home) const {
  int64_t end = span.lookup(user).first;
  for (Operation* parent = user->getParentOp(); parent && user->getParentRegion() != home;
       parent = user->getParentOp()) {
    if (isLoop(parent)) end = span.lookup(parent).second;
    user = parent;
  }
  return end;
}

// Returns a write that may run between a load and its evaluation in a group, or null.
Operation* Plan::hazard(Operation* load, bool identity, int groupIndex) const {
  if (alias.readsConstantMemory(load)) return nullptr;
  const Group& group = groups[groupIndex];
  int64_t begin = span.lookup(load).first,
          end = endOfUse(group.sinks.back().op, load->getParentRegion());
  for (Operation* write : writes) {
    int64_t at = span.lookup(write).first;
    if (at <= begin || at > end || !alias.mayAlias(load, write)) continue;
    bool inGroup = llvm::any_of(group.sinks, [&](const Sink& sink) {
      return sink.op == write && (sink.kind == SinkKind::storeTile);
    });
    if (inGroup && identity && alias.sameElements(load, write) &&
        end == span.lookup(group.sinks.back().op).first)
      continue;
    return write;
  }
  return nullptr;
}

bool Plan::endsRow(tile::LoadTileOp load) const {
  constexpr int64_t kKept = 640 << 10;  // bytes; two such rows and the stored tiles fit in L2
  auto row = load.getResidentAttr();
  auto type = cast<tile::ViewType>(load.getView().getType());
  int64_t length = type.getShape().back();
  if (!row || ShapedType::isDynamic(length) || length * storageBytes(type.getElementType()) > kKept)
    return false;
  auto positions = [&](Operation* other) { return span.lookup(other).first; };
  bool before = false;
  for (Operation* other : loads) {
    auto same = dyn_cast<tile::LoadTileOp>(other);
    if (!same || same == load || same.getResidentAttr() != row) continue;
    if (positions(same) > positions(load)) return false;
    before = true;
  }
  return before;
}

bool Plan::isOnlyWritten(Operation* store) const {
  return llvm::none_of(loads, [&](Operation* load) { return alias.mayAlias(load, store); });
}

static int64_t product(ArrayRef<int64_t> shape) {
  int64_t total = 1;
  for (int64_t size : shape) total *= size;
  return total;
}

// Returns true if every reader of `op` is in `others`, directly or through elementwise ops of its
// block.
bool Plan::isReadBy(Operation* op, const llvm::SetVector<Operation*>& others) const {
  llvm::SetVector<Operation*> readers;
  readers.insert(op);
  for (size_t i = 0; i < readers.size(); ++i)
    for (Operation* user : readers[i]->getUsers()) {
      if (others.contains(user)) continue;
      if (user->getBlock() != op->getBlock() || !isElementwise(user) ||
          bufferOf(user->getResult(0)))
        return false;
      readers.insert(user);
    }
  return true;
}

bool Plan::materialiseMore() {
  llvm::MapVector<Operation*, int> evaluations;
  SmallVector<Value> wanted;
  for (auto [index, group] : llvm::enumerate(groups)) {
    llvm::SetVector<Operation*> evaluated;
    for (const Sink& sink : group.sinks) {
      Reads reads = readsOf(sink);
      for (auto& [load, identity] : reads.loads) {
        if (materialised.contains(load->getResult(0))) continue;
        Operation* write = hazard(load, identity, static_cast<int>(index));
        if (!write) continue;
        missed(load, RemarkId::tile_copied)
            << "the tile is copied, because the op at " << placeOf(write)
            << " may write the tile's memory before the tile is used; use the tile before that "
               "op, or, if the op writes another argument, promise that the arguments do not "
               "overlap (no_alias)";
        wanted.push_back(load->getResult(0));
      }
      evaluated.insert(reads.ops.begin(), reads.ops.end());
    }
    int64_t steps = product(group.shape);
    for (Operation* op : evaluated) {
      if (!isExpensive(op)) continue;
      Operation* user = group.sinks[0].op;
      auto tile = cast<RankedTensorType>(op->getResult(0).getType());
      bool inDeeperLoop = endOfUse(user, op->getParentRegion()) != span.lookup(user).first;
      // The tile is a row, for example 1 x N, that every row of the nest evaluates.
      bool perRow = tile.getNumElements() < steps && tile.getShape().back() > 1;
      evaluations[op] += inDeeperLoop || perRow ? 2 : 1;
    }
  }
  llvm::SetVector<Operation*> repeated;
  for (auto [op, count] : evaluations)
    if (count > 1) repeated.insert(op);
  // If repeated ops depend on each other, only the last one needs a buffer.
  for (Operation* op : repeated)
    if (!isReadBy(op, repeated)) wanted.push_back(op->getResult(0));
  bool changed = false;
  for (Value value : wanted) {
    if (!materialised.insert(value).second) continue;
    giveBuffer(value, value.getDefiningOp()->getParentRegion());
    changed = true;
  }
  return changed;
}

}  // namespace ligerdsl::compiler::cpu
