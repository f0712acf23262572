// Lowers reductions: initial values, combination and final result. The loop nests of reductions
// along a dimension other than the lane dimension are also here.
#include "compiler/target/cpu/lowering.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

SmallVector<Value> TileLowering::combine(tile::ReduceOp op, ArrayRef<Value> x, ArrayRef<Value> y,
                                         int64_t lanes) {
  SmallVector<Value> arguments(x);
  arguments.append(y.begin(), y.end());
  SmallVector<Value> result = registers.combine(op.getCombiner(), arguments, lanes);
  if (!result.empty()) return result;
  broken = true;
  return SmallVector<Value>(x);
}

// Returns the initial value of each operand's register: the identity of a named reduction. A custom
// combiner has no known identity: its registers begin as 0, and the first element replaces them.
SmallVector<Value> TileLowering::start(tile::ReduceOp op, int64_t lanes) {
  SmallVector<Value> result;
  for (Value operand : op.getSources()) {
    Type element = getElementTypeOrSelf(operand.getType());
    Value value = op.getKind() == tile::ReductionKind::custom
                      ? registers.constant(loc, b.getZeroAttr(element))
                      : registers.identity(loc, op.getKind(), element);
    result.push_back(registers.splat(loc, value, lanes));
  }
  return result;
}

// Combines the registers in pairs, then the lane halves of the last one. The shape fixes the order.
void TileLowering::finish(Reduction& reduction) {
  tile::ReduceOp op = reduction.op;
  loc = op.getLoc();
  size_t operands = op.getSources().size();
  int64_t lanes = nest->lanes;
  SmallVector<SmallVector<Value>> parts(reduction.copies);
  for (int copy = 0; copy < reduction.copies; ++copy)
    for (size_t n = 0; n < operands; ++n)
      parts[copy].push_back(reduction.registers[n * reduction.copies + copy]);
  for (; parts.size() > 1; parts.resize(parts.size() / 2))
    for (size_t i = 0; i < parts.size() / 2; ++i)
      parts[i] = combine(op, parts[2 * i], parts[2 * i + 1], lanes);
  SmallVector<Value> total = parts[0];
  for (; lanes > 1; lanes /= 2) {
    SmallVector<Value> low, high;
    for (Value value : total) {
      SmallVector<int32_t> first, second;
      for (int32_t i = 0; i < lanes / 2; ++i) first.push_back(i), second.push_back(i + lanes / 2);
      auto part = [&](ArrayRef<int32_t> picked) -> Value {
        if (lanes == 2) return LLVM::ExtractElementOp::create(b, loc, value, i64(picked[0]));
        return LLVM::ShuffleVectorOp::create(b, loc, value, value, picked);
      };
      low.push_back(part(first));
      high.push_back(part(second));
    }
    total = combine(op, low, high, lanes / 2);
  }
  for (auto [result, value] : llvm::zip_equal(op.getResults(), total)) {
    if (Buffer* buffer = plan.bufferOf(result)) {
      Coords at = identity();
      at.erase(at.begin() + op.getAxis());
      bufferStore(buffer, at, value);
    } else {
      scalars[result] = value;
    }
  }
}

//===-- Reductions along another dimension ------------------------------------===//
//
// Each lane reduces its own column, so lanes are never combined. Reductions of one shape and axis
// share a nest:
//
//   for the other dimensions, by up to four adjacent registers of the lane dimension:
//     for the axis: combine; without guards if every tile is inside its view
//
// Adjacent registers hide the combiner's latency and read contiguous memory.

// Emits the loop over the axis. Returns the reductions with one register per operand and per entry
// of `places`. Code that does not depend on the index along the axis goes before `anchor`, or
// before the loop if `anchor` is null.
SmallVector<Reduction> TileLowering::reduceAcross(const Group& group, int axis,
                                                  ArrayRef<Coords> places, bool inBounds,
                                                  Operation* anchor) {
  SmallVector<Reduction> reductions;
  SmallVector<Value> carried;
  int copies = static_cast<int>(places.size());
  for (const Sink& sink : group.sinks) {
    Reduction& reduction = reductions.emplace_back();
    reduction.op = cast<tile::ReduceOp>(sink.op);
    reduction.copies = copies;
    for (Value value : start(reduction.op, nest->lanes)) reduction.registers.append(copies, value);
    llvm::append_range(carried, reduction.registers);
  }
  auto loop = scf::ForOp::create(b, loc, i64(0), i64(nest->shape[axis]), i64(1), carried);
  nest->loops.push_back(anchor ? anchor : loop.getOperation());
  nest->indices[axis] = loop.getInductionVar();
  nest->depths[axis] = ++nest->inner;
  nest->inBounds = inBounds;
  b.setInsertionPointToEnd(loop.getBody());
  Value first =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, loop.getInductionVar(), i64(0));
  SmallVector<Value> results(loop.getRegionIterArgs());
  for (int copy = 0; copy < copies; ++copy) {
    nest->body.clear();
    Coords here = places[copy];
    here[axis] = identity()[axis];
    size_t next = copy;  // operand n of this copy is at next + n * copies
    for (Reduction& reduction : reductions) {
      SmallVector<Value> old, items;
      for (auto [n, source] : llvm::enumerate(reduction.op.getSources())) {
        items.push_back(registers.splat(loc, evaluate(source, here).value, nest->lanes));
        old.push_back(results[next + n * copies]);
      }
      for (auto [value, item] :
           llvm::zip_equal(combine(reduction.op, old, items, nest->lanes), items)) {
        if (reduction.op.getKind() == tile::ReductionKind::custom)
          value = arith::SelectOp::create(b, loc, first, item, value);
        results[next] = value;
        next += copies;
      }
    }
  }
  scf::YieldOp::create(b, loc, results);
  b.setInsertionPointAfter(loop);
  --nest->inner;
  nest->loops.pop_back();
  nest->indices[axis] = {};
  nest->depths[axis] = 0;
  size_t next = 0;
  for (Reduction& reduction : reductions)
    for (Value& value : reduction.registers) value = loop.getResult(next++);
  return reductions;
}

static SmallVector<Value> allRegisters(ArrayRef<Reduction> reductions) {
  SmallVector<Value> values;
  for (const Reduction& reduction : reductions) llvm::append_range(values, reduction.registers);
  return values;
}

void TileLowering::lowerAcross(const Group& group) {
  int axis = static_cast<int>(cast<tile::ReduceOp>(group.sinks.front().op).getAxis());
  Value whole;
  for (const Bound& bound : bounds) whole = both(whole, less(i64(bound.size - 1), bound.extent));
  int lane = nest->laneDim;
  if (lane >= 0)
    while (nest->registers < 4 && nest->shape[lane] % (2 * nest->registers * nest->lanes) == 0)
      nest->registers *= 2;
  loopNest(longDims(axis), [&] {
    // Coordinates of adjacent registers. The index along the reduced axis is set later.
    SmallVector<Coords> places(nest->registers, identity());
    for (int copy = 1; copy < nest->registers; ++copy)
      places[copy][lane].base = add(places[0][lane].base, i64(copy * nest->lanes));
    SmallVector<Reduction> reductions;
    if (!whole) {
      reductions = reduceAcross(group, axis, places, true, nullptr);
    } else {
      SmallVector<Type> types;
      for (const Sink& sink : group.sinks)
        for (Value source : cast<tile::ReduceOp>(sink.op).getSources())
          types.append(nest->registers,
                       registerType(getElementTypeOrSelf(source.getType()), nest->lanes));
      auto branch =
          scf::IfOp::create(b, loc, types, whole, /*addThenBlock=*/true, /*addElseBlock=*/true);
      for (bool inBounds : {true, false}) {
        b.setInsertionPointToEnd(
            &(inBounds ? branch.getThenRegion() : branch.getElseRegion()).front());
        reductions = reduceAcross(group, axis, places, inBounds, branch);
        scf::YieldOp::create(b, loc, allRegisters(reductions));
      }
      b.setInsertionPointAfter(branch);
      size_t next = 0;
      for (Reduction& reduction : reductions)
        for (Value& value : reduction.registers) value = branch.getResult(next++);
    }
    nest->inBounds = false;
    for (int copy = 0; copy < nest->registers; ++copy) {
      Coords at = places[copy];
      at.erase(at.begin() + axis);
      for (Reduction& reduction : reductions) {
        for (auto [n, result] : llvm::enumerate(reduction.op.getResults())) {
          Value value = reduction.registers[n * reduction.copies + copy];
          if (Buffer* buffer = plan.bufferOf(result))
            bufferStore(buffer, at, value);
          else
            scalars[result] = value;
        }
      }
    }
  });
}

}  // namespace ligerdsl::compiler::cpu
