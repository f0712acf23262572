// Reductions: how registers begin, combine and end; and whole nests for reductions along another dimension than the
// lanes'.
#include "compiler/target/cpu/lowering.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

SmallVector<Value> TileLowering::combine(tile::ReduceOp op, ArrayRef<Value> x, ArrayRef<Value> y, int64_t lanes) {
  SmallVector<Value> arguments(x);
  arguments.append(y.begin(), y.end());
  SmallVector<Value> result = registers.combine(op.getCombiner(), arguments, lanes);
  if (!result.empty()) return result;
  broken = true;
  return SmallVector<Value>(x);
}

// What the registers hold before the first element: the identity of a named reduction. A custom combiner has none
// known; its first element replaces whatever is there.
SmallVector<Value> TileLowering::start(tile::ReduceOp op, int64_t lanes) {
  SmallVector<Value> result;
  for (Value operand : op.getSources()) {
    Type element = getElementTypeOrSelf(operand.getType());
    Value value = op.getKind() == tile::ReductionKind::custom ? registers.constant(loc, b.getZeroAttr(element))
                                                              : registers.identity(loc, op.getKind(), element);
    result.push_back(registers.splat(loc, value, lanes));
  }
  return result;
}

// Copies pairwise, then halves of the lanes, in an order that depends on nothing but the shape.
void TileLowering::finish(Reduction& reduction) {
  tile::ReduceOp op = reduction.op;
  loc = op.getLoc();
  size_t operands = op.getSources().size();
  int64_t lanes = nest->lanes;
  SmallVector<SmallVector<Value>> parts(reduction.copies);
  for (int copy = 0; copy < reduction.copies; ++copy)
    for (size_t n = 0; n < operands; ++n) parts[copy].push_back(reduction.registers[n * reduction.copies + copy]);
  for (; parts.size() > 1; parts.resize(parts.size() / 2))
    for (size_t i = 0; i < parts.size() / 2; ++i) parts[i] = combine(op, parts[2 * i], parts[2 * i + 1], lanes);
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

//===-- Along another dimension ------------------------------------------------------------------===//
//
// An element's partners are whole registers, so there is no horizontal step. Reductions of one shape and axis share a
// nest:
//
//   for the other dimensions, the lane dimension in registers:
//     for the axis, unguarded if every tile lies wholly inside its view: combine

// The loop over the axis; gives every reduction's registers. What does not depend on the axis goes before `anchor`, or
// before the loop without one.
SmallVector<Reduction> TileLowering::reduceAcross(const Group& group, int axis, bool inBounds, Operation* anchor) {
  SmallVector<Reduction> reductions;
  SmallVector<Value> carried;
  for (const Sink& sink : group.sinks) {
    reductions.push_back({cast<tile::ReduceOp>(sink.op), 1, start(cast<tile::ReduceOp>(sink.op), nest->lanes)});
    llvm::append_range(carried, reductions.back().registers);
  }
  auto loop = scf::ForOp::create(b, loc, i64(0), i64(nest->shape[axis]), i64(1), carried);
  nest->loops.push_back(anchor ? anchor : loop.getOperation());
  nest->indices[axis] = loop.getInductionVar();
  nest->depths[axis] = ++nest->inner;
  nest->inBounds = inBounds;
  nest->body.clear();
  b.setInsertionPointToEnd(loop.getBody());
  Value first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, loop.getInductionVar(), i64(0));
  SmallVector<Value> results;
  size_t next = 0;
  for (Reduction& reduction : reductions) {
    SmallVector<Value> old, items;
    for (Value source : reduction.op.getSources()) {
      items.push_back(registers.splat(loc, evaluate(source, identity()).value, nest->lanes));
      old.push_back(loop.getRegionIterArgs()[next++]);
    }
    SmallVector<Value> combined = combine(reduction.op, old, items, nest->lanes);
    for (auto [value, item] : llvm::zip_equal(combined, items)) {
      if (reduction.op.getKind() == tile::ReductionKind::custom)
        value = arith::SelectOp::create(b, loc, first, item, value);
      results.push_back(value);
    }
  }
  scf::YieldOp::create(b, loc, results);
  b.setInsertionPointAfter(loop);
  --nest->inner;
  nest->loops.pop_back();
  nest->indices[axis] = {};
  nest->depths[axis] = 0;
  next = 0;
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
  loopNest(longDims(axis), [&] {
    SmallVector<Reduction> reductions;
    if (!whole) {
      reductions = reduceAcross(group, axis, true, nullptr);
    } else {
      SmallVector<Type> types;
      for (const Sink& sink : group.sinks)
        for (Value source : cast<tile::ReduceOp>(sink.op).getSources())
          types.push_back(registerType(getElementTypeOrSelf(source.getType()), nest->lanes));
      auto branch = scf::IfOp::create(b, loc, types, whole, /*addThenBlock=*/true, /*addElseBlock=*/true);
      for (bool inBounds : {true, false}) {
        b.setInsertionPointToEnd(&(inBounds ? branch.getThenRegion() : branch.getElseRegion()).front());
        reductions = reduceAcross(group, axis, inBounds, branch);
        scf::YieldOp::create(b, loc, allRegisters(reductions));
      }
      b.setInsertionPointAfter(branch);
      size_t next = 0;
      for (Reduction& reduction : reductions)
        for (Value& value : reduction.registers) value = branch.getResult(next++);
    }
    nest->inBounds = false;
    Coords at = identity();
    at.erase(at.begin() + axis);
    for (Reduction& reduction : reductions) {
      for (auto [result, value] : llvm::zip_equal(reduction.op.getResults(), reduction.registers)) {
        if (Buffer* buffer = plan.bufferOf(result))
          bufferStore(buffer, at, value);
        else
          scalars[result] = value;
      }
    }
  });
}

}  // namespace ligerdsl::compiler::cpu
