// Reductions along another dimension than the lanes': an element's partners are whole registers, so there is no horizontal
// step. Reductions of one shape and axis share a nest:
//
//   for the other dimensions, the lane dimension in registers:
//     for the axis, unguarded if every tile lies wholly inside its view: combine
#include "compiler/target/cpu/lowering.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

// The loop over the axis; gives every reduction's registers. What does not depend on the axis goes before `anchor`, or before
// the loop without one.
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
      if (reduction.op.getKind() == tile::ReductionKind::custom) value = arith::SelectOp::create(b, loc, first, item, value);
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
