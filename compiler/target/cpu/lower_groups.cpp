// Lowers a group of sinks to one loop nest:
//
//   for the dimensions except the lane dimension:
//     full = lane-dimension elements inside all views, in whole steps; 0 if outside a view
//     even = n, rounded down to whole steps
//     for j in [0, full) by copies * W:    `copies` unguarded bodies; copies = 1 without reductions
//     for j in [full, even) by copies * W: `copies` guarded bodies
//     for j in [even, n) by W:             one guarded body
//     combine the reductions' registers in a fixed order
//
// Groups that do little but store (`storesLines`) differ in two ways:
// - A guarded body first computes the elements before the first cache-line boundary. The loops
//   begin at this boundary, so that each register is stored to one line, not two (`leadOf`).
// - Rows that read a common tile are computed in pairs, which read it once (`lowerPairs`).
#include <utility>

#include "compiler/target/cpu/lowering.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

void TileLowering::openNest(ArrayRef<int64_t> shape, int laneDim, int64_t maxLanes) {
  nest->shape.assign(shape.begin(), shape.end());
  nest->laneDim = laneDim;
  nest->lanes = laneDim < 0 ? 1 : std::min(maxLanes, shape[laneDim] & -shape[laneDim]);
  nest->indices.assign(shape.size(), Value());
  nest->begins.assign(shape.size(), Value());
  nest->ends.assign(shape.size(), Value());
  nest->depths.assign(shape.size(), 0);
}

// Returns the dimensions longer than 1, which need a loop, without `except`.
SmallVector<int> TileLowering::longDims(int except) {
  SmallVector<int> dims;
  for (int dim = 0; dim < static_cast<int>(nest->shape.size()); ++dim)
    if (nest->shape[dim] > 1 && dim != except) dims.push_back(dim);
  return dims;
}

// Emits loops over `dims`. The lane dimension advances by whole registers.
void TileLowering::loopNest(ArrayRef<int> dims, llvm::function_ref<void()> body) {
  if (dims.empty()) return body();
  int dim = dims.front();
  Value begin = nest->begins[dim] ? nest->begins[dim] : i64(0);
  Value end = nest->ends[dim] ? nest->ends[dim] : i64(nest->shape[dim]);
  auto loop = scf::ForOp::create(b, loc, begin, end,
                                 i64(dim == nest->laneDim ? nest->registers * nest->lanes : 1));
  nest->loops.push_back(loop);
  nest->indices[dim] = loop.getInductionVar();
  nest->depths[dim] = ++nest->inner;
  b.setInsertionPoint(loop.getBody()->getTerminator());
  loopNest(dims.drop_front(), body);
  b.setInsertionPointAfter(loop);
}

void TileLowering::lowerGroup(const Group& group) {
  loc = group.sinks.front().op->getLoc();
  Nest here;
  nest = &here;
  this->group = &group;
  if (group.sinks.front().kind == SinkKind::ordered) {
    lowerOrdered(group.sinks.front().op, group.shape);
  } else {
    openNest(group.shape, laneDimension(group.shape), kMaxLanes << timesInterleaved(group));
    collectBounds(group);
    if (group.sinks.front().kind == SinkKind::across) {
      lowerAcross(group);
    } else {
      const SmallVector<int> outer = longDims(nest->laneDim);
      Nest rest;
      if (const int dim = pairedDim(group, outer); dim >= 0) {
        Value paired = lowerPairs(group, dim);
        nest = &rest;
        openNest(group.shape, laneDimension(group.shape));
        collectBounds(group);
        nest->begins[dim] = paired;
      }
      for (int dim : outer) nest->ends[dim] = endOfStores(group, dim);
      loopNest(outer, [&] { laneLoops(group); });
    }
  }
  nest = nullptr;
}

//===-- Bounds ----------------------------------------------------------------===//

void TileLowering::addBounds(Operation* access, ArrayRef<int> dims) {
  Value tile = isa<tile::LoadTileOp>(access) ? access->getResult(0) : access->getOperand(0);
  ArrayRef<int64_t> sizes = cast<RankedTensorType>(tile.getType()).getShape();
  for (auto [dim, extent, size] : llvm::zip_equal(dims, accesses[access].extents, sizes))
    if (extent) bounds.push_back({dim, extent, size});
  nest->proved.insert(access);
}

void TileLowering::boundsOf(Value tile, SmallVector<int> dims,
                            llvm::DenseSet<std::pair<Value, int64_t>>& seen) {
  Operation* op = tile.getDefiningOp();
  if (!isa<RankedTensorType>(tile.getType()) || !op) return;
  int64_t key = 0;
  for (int dim : dims) key = key * 16 + dim + 2;
  if (!seen.insert({tile, key}).second) return;
  if (isa<tile::LoadTileOp>(op)) return addBounds(op, dims);
  SmallVector<int> source = dims;
  if (auto expand = dyn_cast<tile::ExpandDimsOp>(op)) {
    source.erase(source.begin() + expand.getAxis());
  } else if (isa<tile::BroadcastOp>(op)) {
    for (auto [dim, size] :
         llvm::zip(source, cast<RankedTensorType>(op->getOperand(0).getType()).getShape()))
      if (size == 1) dim = kZero;
  } else if (auto permute = dyn_cast<tile::PermuteOp>(op)) {
    for (auto [i, from] : llvm::enumerate(permute.getPermutation())) source[from] = dims[i];
  } else if (auto reshape = dyn_cast<tile::ReshapeOp>(op)) {
    // If a reshape only adds or removes dimensions of size 1, the other dimensions keep their
    // index.
    ArrayRef<int64_t> from = cast<RankedTensorType>(reshape.getType()).getShape();
    ArrayRef<int64_t> to = cast<RankedTensorType>(reshape.getSource().getType()).getShape();
    auto isLong = [](int64_t n) { return n > 1; };
    bool same =
        llvm::equal(llvm::make_filter_range(from, isLong), llvm::make_filter_range(to, isLong));
    source.assign(to.size(), kZero);
    size_t next = 0;
    for (auto [dim, size] : llvm::zip(source, to)) {
      if (size == 1) continue;
      while (same && from[next] == 1) ++next;
      dim = same ? dims[next++] : kWhole;
    }
  } else if (!isElementwise(op) && !isa<tile::LoadOp, tile::GatherOp>(op)) {
    return;
  }
  for (Value operand : op->getOperands())
    if (!plan.bufferOf(operand)) boundsOf(operand, source, seen);
}

// Collects the bounds under which the group's partition accesses are inside their views. Adds these
// accesses to nest->proved.
void TileLowering::collectBounds(const Group& group) {
  bounds.clear();
  SmallVector<int> dims;
  for (size_t dim = 0; dim < group.shape.size(); ++dim)
    dims.push_back(group.shape[dim] > 1 ? static_cast<int>(dim) : kZero);
  llvm::DenseSet<std::pair<Value, int64_t>> seen;
  for (const Sink& sink : group.sinks) {
    if (sink.source) continue;
    if (sink.kind == SinkKind::materialise) {
      if (plan.bufferOf(sink.value) == sink.target || !plan.bufferOf(sink.value))
        boundsOf(sink.value, dims, seen);
      continue;
    }
    if (sink.kind == SinkKind::storeTile) addBounds(sink.op, dims);
    for (Value operand : sink.op->getOperands())
      if (!plan.bufferOf(operand)) boundsOf(operand, dims, seen);
  }
}

//===-- Lane loops ------------------------------------------------------------===//

// Returns the number of registers that each reduction accumulates in; several registers hide the
// combiner's latency. The register of an element depends only on its index in the tile. Results
// thus do not depend on the loop's other sinks or on a view's end.
static int copiesFor(const Group& group, int64_t steps) {
  bool reduces =
      llvm::any_of(group.sinks, [](const Sink& sink) { return sink.kind == SinkKind::reduce; });
  if (!reduces) return 1;
  return steps >= 4 ? 4 : steps >= 2 ? 2 : 1;
}

// Returns the ends of the leading body (null without one), the unguarded loop and the guarded loop.
TileLowering::LaneRange TileLowering::laneRange(const Group& group, int64_t step) {
  int dim = nest->laneDim;
  Value inside, limit = i64(nest->shape[dim]), end = limit;
  for (const Bound& bound : bounds) {
    if (bound.dim == dim) {
      limit = b.createOrFold<arith::MinSIOp>(loc, limit, bound.extent);
    } else if (bound.dim != nest->pairedDim || bound.dim < 0) {
      Value index =
          bound.dim >= 0 ? nest->indices[bound.dim] : i64(bound.dim == kZero ? 0 : bound.size - 1);
      inside = both(inside, less(index, bound.extent));
    }
  }
  Value lead = leadOf(group, limit, inside), beyond = lead ? sub(limit, lead) : limit;
  Value full = sub(limit, b.createOrFold<arith::RemUIOp>(loc, beyond, i64(step)));
  if (inside) full = b.createOrFold<arith::SelectOp>(loc, inside, full, i64(0));
  if (Value last = endOfStores(group, dim)) end = last;
  return {lead, full, end};
}

// Returns the largest extent along `dim` if all sinks of the group store to partitions: no element
// after it is stored. Returns null if the group has other sinks.
Value TileLowering::endOfStores(const Group& group, int dim) {
  Value last;
  for (const Sink& sink : group.sinks) {
    if (sink.kind != SinkKind::storeTile) return {};
    Value extent = accesses[sink.op].extents[dim];
    if (!extent) extent = i64(nest->shape[dim]);
    last = last ? b.createOrFold<arith::MaxSIOp>(loc, last, extent) : extent;
  }
  return last;
}

// Returns true if the op costs less than a store that crosses a cache line.
static bool isCheap(Operation* op) {
  if (isa<tile::LoadTileOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::SplatOp,
          tile::MakeRangeOp>(op))
    return true;
  if (isa<arith::ConstantOp, math::FmaOp, math::AbsFOp>(op)) return true;
  return isElementwise(op) && !isa<math::MathDialect>(op->getDialect());
}

// Returns true if the group only stores to views, each register fills a cache line, and memory
// limits the speed. The registers of such a group need not begin at multiples of W. Registers
// shorter than a line are excluded, because at most every second one crosses a line.
bool TileLowering::storesLines(const Group& group) {
  constexpr int64_t kLeast = 256;  // elements per row
  constexpr size_t kMostOps = 24;
  const int dim = nest->laneDim;
  if (dim < 0 || nest->shape[dim] < kLeast) return false;
  size_t ops = 0;
  for (const Sink& sink : group.sinks) {
    if (sink.kind != SinkKind::storeTile) return false;
    const Plan::Reads reads = plan.readsOf(sink);
    ops += reads.ops.size();
    if (!reads.buffers.empty() || !llvm::all_of(reads.ops, isCheap)) return false;
  }
  const TileAccess& access = accesses[group.sinks.front().op];
  return ops <= kMostOps && nest->lanes * storageBytes(access.element) == kLine &&
         matchPattern(access.strides.back(), m_One());
}

// Returns the number of elements before the first cache-line boundary in the current row of the
// first store. It is 0 for rows shorter than 256 elements and for rows outside a view. Returns null
// if alignment to cache lines does not matter.
Value TileLowering::leadOf(const Group& group, Value limit, Value inside) {
  constexpr int64_t kLeast = 256;
  if (!storesLines(group)) return {};
  const TileAccess& access = accesses[group.sinks.front().op];
  Coords first = identity();
  first[nest->laneDim] = Coord{};
  Value at = LLVM::PtrToIntOp::create(
      b, loc, b.getI64Type(),
      address(access.origin, access.element, first, access.strides).pointer);
  Value before = arith::AndIOp::create(b, loc, sub(i64(0), at), i64(kLine - 1));
  Value lead = arith::DivUIOp::create(b, loc, before, i64(storageBytes(access.element)));
  return arith::SelectOp::create(b, loc, both(inside, less(i64(kLeast - 1), limit)), lead, i64(0));
}

// Returns the dimension whose rows are computed in pairs, because they read one row that is
// broadcast along it. Returns -1 if there is none.
int TileLowering::pairedDim(const Group& group, ArrayRef<int> outer) {
  if (outer.size() != 1 || !storesLines(group)) return -1;
  const int dim = outer.front();
  for (const Sink& sink : group.sinks)
    for (Operation* op : plan.readsOf(sink).ops) {
      auto broadcast = dyn_cast<tile::BroadcastOp>(op);
      if (!broadcast) continue;
      ArrayRef<int64_t> from = cast<RankedTensorType>(broadcast.getSource().getType()).getShape();
      if (from[dim] == 1 && from[nest->laneDim] > 1) return dim;
    }
  return -1;
}

// Emits the loop over pairs of rows that are inside all views, and returns the index of the first
// remaining row. The loop is skipped at run time unless two conditions hold:
// - The row stride is not near a multiple of 4096 bytes. A CPU compares only the low 12 bits of a
//   load's address with stores in flight, so loads of one row would wait for stores of the other.
// - The view is smaller than 2 MiB. Larger views come from memory, which is faster row by row.
Value TileLowering::lowerPairs(const Group& group, int dim) {
  constexpr int64_t kPage = 4096, kLeastDistance = 256, kNear = int64_t{2} << 20;
  auto store = cast<tile::StoreTileOp>(group.sinks.front().op);
  const TileAccess& access = accesses[store];
  const int64_t bytes = storageBytes(access.element);
  Value rows = i64(nest->shape[dim]);
  for (const Bound& bound : bounds)
    if (bound.dim == dim) rows = b.createOrFold<arith::MinSIOp>(loc, rows, bound.extent);
  Value distance =
      b.createOrFold<arith::AndIOp>(loc, mul(access.strides[dim], i64(bytes)), i64(kPage - 1));
  Value paired = b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::ult,
                                               sub(distance, i64(kLeastDistance)),
                                               i64(kPage - 2 * kLeastDistance + 1));
  paired = both(paired, less(views[store.getView()].span, i64(kNear / bytes)));
  Value even = b.createOrFold<arith::AndIOp>(loc, rows, i64(-2));
  Value end = b.createOrFold<arith::SelectOp>(loc, paired, even, i64(0));
  auto loop = scf::ForOp::create(b, loc, i64(0), end, i64(2));
  nest->loops.push_back(loop);
  nest->indices[dim] = loop.getInductionVar();
  nest->depths[dim] = ++nest->inner;
  nest->pairedDim = dim;
  b.setInsertionPoint(loop.getBody()->getTerminator());
  nest->second = add(loop.getInductionVar(), i64(1));
  laneLoops(group);
  b.setInsertionPointAfter(loop);
  return end;
}

// Emits one loop over the lane dimension. Each iteration computes `bodies` registers of W elements,
// and body i updates register i of every reduction.
void TileLowering::laneLoop(const Group& group, MutableArrayRef<Reduction> reductions, Value from,
                            Value to, int bodies, bool inBounds) {
  IntegerAttr first, last;
  if (matchPattern(from, m_Constant(&first)) && matchPattern(to, m_Constant(&last)) &&
      first.getInt() >= last.getInt())
    return;
  int dim = nest->laneDim;
  SmallVector<Value*> carried;  // registers that this loop updates
  for (Reduction& reduction : reductions)
    for (size_t i = 0; i < reduction.registers.size(); ++i)
      if (static_cast<int>(i) % reduction.copies < bodies)
        carried.push_back(&reduction.registers[i]);
  auto values = [&] {
    SmallVector<Value> result;
    for (Value* value : carried) result.push_back(*value);
    return result;
  };

  auto loop = scf::ForOp::create(b, loc, from, to, i64(bodies * nest->lanes), values());
  if (loop.getBody()->mightHaveTerminator()) loop.getBody()->getTerminator()->erase();
  nest->loops.resize(nest->inner);
  if (!laneAnchor) laneAnchor = loop;  // hoisted code goes before the first lane loop
  nest->loops.push_back(laneAnchor);
  nest->depths[dim] = ++nest->inner;
  nest->inBounds = inBounds;
  b.setInsertionPointToEnd(loop.getBody());
  for (auto [value, argument] : llvm::zip_equal(carried, loop.getRegionIterArgs()))
    *value = argument;
  Value start =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, loop.getInductionVar(), i64(0));
  for (int body = 0; body < bodies; ++body) {
    nest->indices[dim] = add(loop.getInductionVar(), i64(body * nest->lanes));
    groupBody(group, reductions, body, start);
    if (nest->pairedDim < 0) continue;
    Value row = std::exchange(nest->indices[nest->pairedDim], nest->second);
    groupBody(group, reductions, body, start);
    nest->indices[nest->pairedDim] = row;
  }
  scf::YieldOp::create(b, loc, values());
  b.setInsertionPointAfter(loop);
  for (auto [value, result] : llvm::zip_equal(carried, loop.getResults())) *value = result;
  --nest->inner;
}

// Returns the condition under which the group's stores to views bypass the caches. Returns null if
// there is no such store, or if one of them may not bypass. Reductions and buffers always use
// normal stores.
Value TileLowering::streamsOf(const Group& group) {
  Value all;
  for (const Sink& sink : group.sinks) {
    if (sink.kind == SinkKind::materialise || sink.kind == SinkKind::reduce) continue;
    if (sink.kind != SinkKind::storeTile || !accesses[sink.op].streams) return {};
    all = both(all, accesses[sink.op].streams);
  }
  return all;
}

void TileLowering::laneLoops(const Group& group) {
  SmallVector<Reduction> reductions;
  if (nest->laneDim < 0) return groupBody(group, reductions, 0, {});
  int64_t steps = nest->shape[nest->laneDim] / nest->lanes;
  int copies = copiesFor(group, steps);
  for (const Sink& sink : group.sinks) {
    if (sink.kind != SinkKind::reduce) continue;
    Reduction& reduction = reductions.emplace_back();
    reduction.op = cast<tile::ReduceOp>(sink.op);
    reduction.copies = copies;
    for (Value value : start(reduction.op, nest->lanes)) reduction.registers.append(copies, value);
  }
  LaneRange range = laneRange(group, copies * nest->lanes);
  laneAnchor = nullptr;
  Value begin = i64(0);
  if (range.lead) {
    nest->lead = begin = range.lead;
    laneLoop(group, reductions, i64(0), begin, 1, false);
    nest->lead = {};
    nest->laneEnd = i64(nest->shape[nest->laneDim]);
  }
  if (Value streams = streamsOf(group)) {
    SmallVector<Value> before;
    for (const Reduction& reduction : reductions) llvm::append_range(before, reduction.registers);
    const auto set = [&](ValueRange values) {
      for (Reduction& reduction : reductions)
        for (Value& value : reduction.registers) {
          value = values.front();
          values = values.drop_front();
        }
    };
    auto branch =
        scf::IfOp::create(b, loc, ValueRange(before).getTypes(), streams, /*addThenBlock=*/true,
                          /*addElseBlock=*/true);
    laneAnchor = branch;
    for (bool around : {true, false}) {
      b.setInsertionPointToStart(
          &(around ? branch.getThenRegion() : branch.getElseRegion()).front());
      nest->streams = around;
      set(before);
      laneLoop(group, reductions, begin, range.full, copies, true);
      SmallVector<Value> after;
      for (const Reduction& reduction : reductions) llvm::append_range(after, reduction.registers);
      scf::YieldOp::create(b, loc, after);
    }
    b.setInsertionPointAfter(branch);
    set(branch.getResults());
    for (const Sink& sink : group.sinks)
      if (auto store = dyn_cast<tile::StoreTileOp>(sink.op))
        streamed.insert(views[store.getView()].large);
  } else {
    laneLoop(group, reductions, begin, range.full, copies, true);
  }
  if (copies == 1) {
    laneLoop(group, reductions, range.full, range.end, 1, false);
  } else {
    // A reduction includes the tile's pad values after the end of a view.
    Value even = i64(steps / copies * copies * nest->lanes);
    laneLoop(group, reductions, range.full, even, copies, false);
    laneLoop(group, reductions, even, range.end, 1, false);
  }
  nest->loops.resize(nest->inner);
  for (Reduction& reduction : reductions) finish(reduction);
}

// Evaluates every sink at the nest's current index, then writes the results. A value is written to
// its buffer at once if a later sink reads this buffer through a reshape; no earlier sink reads it.
void TileLowering::groupBody(const Group& group, MutableArrayRef<Reduction> reductions, int copy,
                             Value first) {
  // The second row of a pair reuses values that the first row has evaluated, such as shared tiles.
  if (nest->pairedDim < 0 || nest->indices[nest->pairedDim] != nest->second) nest->body.clear();
  Coords here = identity();
  struct Work {
    SmallVector<Value> values;
    Guard guard;
    Address to;
  };
  SmallVector<Work> work;
  for (const Sink& sink : group.sinks) {
    Work& item = work.emplace_back();
    loc = sink.op->getLoc();
    if (sink.kind == SinkKind::materialise) {
      if (sink.source) {
        item.values.push_back(bufferLoad(sink.source, here));
      } else if (plan.bufferOf(sink.value) == sink.target && sink.value.getDefiningOp()) {
        Evaluated result = evaluateDefinition(sink.value, here);
        remember(sink.value, here, result);
        if (plan.readsBackReshaped(group, sink.target))
          bufferStore(sink.target, here, result.value);
        else
          item.values.push_back(result.value);
      } else {
        item.values.push_back(evaluate(sink.value, here).value);
      }
    } else if (auto store = dyn_cast<tile::StoreTileOp>(sink.op)) {
      item.values.push_back(evaluate(store.getValue(), here).value);
    } else if (auto scatter = dyn_cast<tile::StoreOp>(sink.op)) {
      item.values.push_back(evaluate(scatter.getValue(), here).value);
      if (scatter.getMask()) {
        Value mask = evaluate(scatter.getMask(), here).value;
        (isa<VectorType>(mask.getType()) ? item.guard.mask : item.guard.condition) = mask;
      }
      item.to =
          pointersAt(scatter.getPtr(), getElementTypeOrSelf(scatter.getValue().getType()), here);
    } else {
      for (Value operand : cast<tile::ReduceOp>(sink.op).getSources())
        item.values.push_back(registers.splat(loc, evaluate(operand, here).value, nest->lanes));
    }
  }
  size_t nextReduction = 0;
  for (auto [sink, item] : llvm::zip_equal(group.sinks, work)) {
    loc = sink.op->getLoc();
    if (sink.kind == SinkKind::materialise) {
      if (!item.values.empty()) bufferStore(sink.target, here, item.values[0]);
    } else if (sink.kind == SinkKind::storeTile) {
      const TileAccess& access = accesses[sink.op];
      Guard guard = guardOf(sink.op, here, nest->inner);
      store(address(access.origin, access.element, here, access.strides), access.element,
            item.values[0], guard, nest->lanes, 0);
    } else if (sink.kind == SinkKind::scatter) {
      store(item.to, getElementTypeOrSelf(cast<tile::StoreOp>(sink.op).getValue().getType()),
            item.values[0], item.guard, nest->lanes, 0);
    } else {
      Reduction& reduction = reductions[nextReduction++];
      size_t operands = item.values.size();
      SmallVector<Value> old;
      for (size_t n = 0; n < operands; ++n)
        old.push_back(reduction.registers[n * reduction.copies + copy]);
      SmallVector<Value> combined = combine(reduction.op, old, item.values, nest->lanes);
      for (size_t n = 0; n < operands; ++n) {
        Value value = combined[n];
        if (reduction.op.getKind() == tile::ReductionKind::custom)
          value = arith::SelectOp::create(b, loc, first, item.values[n], value);
        reduction.registers[n * reduction.copies + copy] = value;
      }
    }
  }
}

}  // namespace ligerdsl::compiler::cpu
