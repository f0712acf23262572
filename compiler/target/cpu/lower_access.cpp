// Lowers addresses, guards, and the loads and stores of registers.
#include "compiler/dialect/atomic.h"
#include "compiler/target/cpu/lowering.h"

using namespace mlir;

namespace ligerdsl::compiler::cpu {

static bool anyLanes(const Coords& coords) {
  return llvm::any_of(coords, [](const Coord& c) { return c.lanes || c.scattered; });
}

//===-- Partitions ------------------------------------------------------------===//

static Value throughCasts(Value index) {
  while (isa_and_nonnull<arith::ExtSIOp, arith::ExtUIOp>(index.getDefiningOp()))
    index = index.getDefiningOp()->getOperand(0);
  return index;
}

// Returns the difference of an index between two consecutive iterations of its loop, or between two
// consecutive programs. Returns null if it is unknown.
Value TileLowering::stepOf(Value index) {
  index = throughCasts(index);
  if (auto argument = dyn_cast<BlockArgument>(index)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    return loop && loop.getInductionVar() == argument ? toI64(scalar(loop.getStep())) : Value();
  }
  if (auto difference = index.getDefiningOp<arith::SubIOp>())
    if (Value step =
            isa<BlockArgument>(difference.getRhs()) ? stepOf(difference.getRhs()) : Value())
      return sub(i64(0), step);
  auto program = index.getDefiningOp<tile::ProgramIdOp>();
  return program && program.getAxis() == 0 ? i64(1) : Value();
}

// Prefetches an element of a later tile, so that the load overlaps with this tile's arithmetic.
//
// 1. If several groups read a tile, the first group brings it into the cache. Later groups prefetch
//    the next iteration's tile if the loop changes the index, else the next program's tile.
// 2. The last loop over a resident row reads it from the cache, and prefetches the next program's
//    row.
void TileLowering::prefetch(tile::LoadTileOp op, Address from) {
  const TileAccess& access = accesses[op];
  Value distance = access.ahead ? access.ahead : access.nextProgram;
  if (access.ahead && access.nextProgram && plan.endsRow(op))
    distance = access.nextProgram;
  else if (!plan.readsAgain(op, *group))
    return;
  if (!distance || from.scattered) return;
  Type pointer = from.pointer.getType();
  Value later =
      LLVM::GEPOp::create(b, loc, pointer, storageType(access.element), from.pointer, distance);
  constexpr int kRead = 0, kToL2 = 2, kData = 1;
  LLVM::Prefetch::create(b, loc, later, kRead, kToL2, kData);
}

// Computes the addresses and extents of a partition access. Along dimension k of the view, the tile
// begins at element indices[k] * sizes[k], and its extent is the number of its elements inside the
// view. A dimension with sizes[k] = 0 is squeezed to element indices[k] and has no extent.
TileAccess TileLowering::prepare(Operation* op) {
  auto load = dyn_cast<tile::LoadTileOp>(op);
  auto storeOp = dyn_cast<tile::StoreTileOp>(op);
  Value viewValue = load ? load.getView() : storeOp.getView();
  ArrayRef<int64_t> sizes = load ? load.getTileShape() : storeOp.getTileShape();
  OperandRange indices = load ? load.getIndices() : storeOp.getIndices();
  const View& view = views[viewValue];
  TileAccess access;
  access.element = cast<tile::ViewType>(viewValue.getType()).getElementType();
  Value offset = i64(0), inside;
  auto moves = [&](Value index, Value elements) {
    bool byProgram = isa_and_nonnull<tile::ProgramIdOp>(throughCasts(index).getDefiningOp());
    (byProgram ? access.nextProgram : access.ahead) = elements;
  };
  for (size_t k = 0; k < sizes.size(); ++k) {
    Value index = scalar(indices[k]), dim = view.dims[k];
    if (sizes[k] == 0) {
      Value exists = b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::ult, index, dim);
      if (!matchPattern(exists, m_One())) inside = both(inside, exists);
      offset = add(offset, mul(index, view.strides[k]));
      if (Value step = stepOf(indices[k])) moves(indices[k], mul(step, view.strides[k]));
      continue;
    }
    Value size = i64(sizes[k]), begin = mul(index, size);
    offset = add(offset, mul(begin, view.strides[k]));
    if (Value step = stepOf(indices[k])) moves(indices[k], mul(mul(step, size), view.strides[k]));
    access.strides.push_back(view.strides[k]);
    Value rest = b.createOrFold<arith::MinSIOp>(loc, sub(dim, begin), size);
    rest = b.createOrFold<arith::MaxSIOp>(loc, rest, i64(0));
    // The multiplication of an i64 index may wrap. The sign of `begin` is then tested instead of
    // the index's sign, which keeps the access inside the view.
    Value sign = throughCasts(indices[k]).getType().isInteger(64) ? begin : index;
    Value extent = b.createOrFold<arith::SelectOp>(loc, less(sign, i64(0)), i64(0), rest);
    IntegerAttr known;
    bool whole = matchPattern(extent, m_Constant(&known)) && known.getInt() == sizes[k];
    access.extents.push_back(whole ? Value() : extent);
  }
  access.view = view.pointer;
  access.origin = LLVM::GEPOp::create(b, loc, view.pointer.getType(), storageType(access.element),
                                      view.pointer, offset);
  // If a squeezed index is outside the view, the tile is empty.
  if (!access.extents.empty() && inside) {
    Value& last = access.extents.back();
    Value size = last;
    if (!size) size = i64(*llvm::find_if(llvm::reverse(sizes), [](int64_t n) { return n != 0; }));
    last = b.createOrFold<arith::SelectOp>(loc, inside, size, i64(0));
    inside = {};
  }
  access.inside = inside;
  if (storeOp && !access.strides.empty() && hasStreaming && plan.isOnlyWritten(op))
    access.streams = maySkipCaches(access, view.large);
  return access;
}

// Returns the condition that the view is large and every row of the tile begins at a cache line, or
// null if it never holds.
Value TileLowering::maySkipCaches(const TileAccess& access, Value large) {
  if (!large || !matchPattern(access.strides.back(), m_One())) return {};
  Value low = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), access.origin);
  for (Value stride : ArrayRef(access.strides).drop_back())
    low = b.createOrFold<arith::OrIOp>(loc, low, mul(stride, i64(storageBytes(access.element))));
  low = b.createOrFold<arith::AndIOp>(loc, low, i64(kLine - 1));
  return both(large, b.createOrFold<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, low, i64(0)));
}

Value TileLowering::pad(tile::LoadTileOp op) {
  Type element = getElementTypeOrSelf(op.getType());
  TypedAttr attr = op.getPad() ? cast<TypedAttr>(*op.getPad()) : b.getZeroAttr(element);
  return registers.constant(loc, attr);
}

// Lowers loads, stores and atomics of one element.
void TileLowering::lowerScalarAccess(Operation* op) {
  auto maskOf = [&](Value mask) { return mask ? Guard{scalar(mask), {}} : Guard{}; };
  if (auto loadTile = dyn_cast<tile::LoadTileOp>(op)) {
    const TileAccess& access = accesses[op];
    scalars[loadTile] =
        load({access.origin}, access.element, {access.inside, {}}, pad(loadTile), 1, 0);
  } else if (auto storeTile = dyn_cast<tile::StoreTileOp>(op)) {
    const TileAccess& access = accesses[op];
    store({access.origin}, access.element, scalar(storeTile.getValue()), {access.inside, {}}, 1, 0);
  } else if (auto gather = dyn_cast<tile::LoadOp>(op)) {
    Type element = gather.getType();
    Value other = gather.getOther() ? scalar(gather.getOther())
                                    : registers.constant(loc, b.getZeroAttr(element));
    scalars[gather] =
        load({toPointer(scalar(gather.getPtr()))}, element, maskOf(gather.getMask()), other, 1, 0);
  } else if (auto scatter = dyn_cast<tile::StoreOp>(op)) {
    store({toPointer(scalar(scatter.getPtr()))}, scatter.getValue().getType(),
          scalar(scatter.getValue()), maskOf(scatter.getMask()), 1, 0);
  } else {
    const AtomicOperands operands = atomicOperands(op);
    Value mask = operands.mask ? scalar(operands.mask) : Value();
    scalars[op->getResult(0)] =
        atomic(op, toPointer(scalar(operands.ptr)), scalarsOf(operands.values), mask);
  }
}

//===-- Addresses -------------------------------------------------------------===//

Address TileLowering::address(Value origin, Type element, const Coords& coords,
                              ArrayRef<Value> strides) {
  Value offset = i64(0), vector;
  bool contiguous = false;
  auto addVector = [&](Value indices, Value stride) {
    Value scaled =
        arith::MulIOp::create(b, loc, indices, registers.splat(loc, stride, nest->lanes));
    vector = vector ? arith::AddIOp::create(b, loc, vector, scaled).getResult() : scaled;
  };
  for (auto [coord, stride] : llvm::zip_equal(coords, strides)) {
    if (!coord.base) continue;
    if (coord.scattered) {
      addVector(coord.base, stride);
      continue;
    }
    offset = add(offset, mul(coord.base, stride));
    if (!coord.lanes) continue;
    if (!contiguous && matchPattern(stride, m_One()))
      contiguous = true;
    else
      addVector(iota(b.getI64Type(), nest->lanes), stride);
  }
  Type pointer = LLVM::LLVMPointerType::get(b.getContext()), stored = storageType(element);
  if (!vector) return {LLVM::GEPOp::create(b, loc, pointer, stored, origin, offset), false};
  if (contiguous) vector = arith::AddIOp::create(b, loc, vector, iota(b.getI64Type(), nest->lanes));
  vector = arith::AddIOp::create(b, loc, vector, registers.splat(loc, offset, nest->lanes));
  return {
      LLVM::GEPOp::create(b, loc, VectorType::get({nest->lanes}, pointer), stored, origin, vector),
      true};
}

// Returns the base and step of a tile of integers or pointers if its value in lane i is base +
// i * step. Arithmetic on 32-bit offsets is assumed not to wrap.
std::optional<TileLowering::Affine> TileLowering::affine(Value value, const Coords& coords) {
  if (llvm::any_of(coords, [](const Coord& c) { return c.scattered; })) return {};
  if (!anyLanes(coords) || !isa<RankedTensorType>(value.getType()))
    return Affine{toI64(evaluate(value, coords).value), 0};
  Operation* op = value.getDefiningOp();
  if (!op || plan.bufferOf(value)) return {};
  if (isa<tile::MakeRangeOp>(op)) return Affine{coords[0].base, 1};
  if (auto splat = dyn_cast<tile::SplatOp>(op)) return Affine{toI64(scalar(splat.getSource())), 0};
  if (auto number = dyn_cast<arith::ConstantOp>(op))
    return Affine{toI64(evaluate(value, coords).value), 0};
  if (isa<tile::ExpandDimsOp, tile::BroadcastOp, tile::ReshapeOp, tile::PermuteOp>(op))
    return affine(op->getOperand(0), sourceCoords(op, coords));
  if (isa<arith::ExtSIOp>(op)) return affine(op->getOperand(0), coords);
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, tile::AddPtrOp>(op)) return {};
  auto left = affine(op->getOperand(0), coords), right = affine(op->getOperand(1), coords);
  if (!left || !right) return {};
  if (auto addptr = dyn_cast<tile::AddPtrOp>(op)) {
    Type pointee = cast<tile::PtrType>(getElementTypeOrSelf(addptr.getType())).getElementType();
    int64_t bytes = storageBytes(pointee);
    return Affine{add(left->base, mul(right->base, i64(bytes))), left->step + bytes * right->step};
  }
  if (isa<arith::AddIOp>(op)) return Affine{add(left->base, right->base), left->step + right->step};
  if (isa<arith::SubIOp>(op)) return Affine{sub(left->base, right->base), left->step - right->step};
  IntegerAttr factor;
  if (left->step == 0 && right->step == 0) return Affine{mul(left->base, right->base), 0};
  if (left->step == 0) std::swap(left, right);
  if (right->step != 0 || !matchPattern(right->base, m_Constant(&factor))) return {};
  return Affine{mul(left->base, right->base), left->step * factor.getInt()};
}

Address TileLowering::pointersAt(Value pointers, Type element, const Coords& coords) {
  if (anyLanes(coords))
    if (auto line = affine(pointers, coords); line && line->step == storageBytes(element))
      return {toPointer(line->base), false};
  Value addresses = evaluate(pointers, coords).value;
  if (anyLanes(coords)) addresses = registers.splat(loc, addresses, nest->lanes);
  return {toPointer(addresses), isa<VectorType>(addresses.getType())};
}

//===-- Guards ----------------------------------------------------------------===//

Guard TileLowering::guardOf(const TileAccess& access, const Coords& coords) {
  Guard guard;
  for (auto [coord, end] : llvm::zip_equal(coords, access.extents)) {
    Value extent = end;
    if (coord.lanes && nest && nest->laneEnd)
      extent = extent ? b.createOrFold<arith::MinSIOp>(loc, extent, nest->laneEnd) : nest->laneEnd;
    if (!extent) continue;
    Value mask;
    if (coord.scattered) {
      mask = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, coord.base,
                                   registers.splat(loc, extent, nest->lanes));
    } else if (coord.lanes) {
      Value left = arith::TruncIOp::create(b, loc, b.getI32Type(), sub(extent, coord.base));
      mask = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                   iota(b.getI32Type(), nest->lanes),
                                   registers.splat(loc, left, nest->lanes));
    } else {
      const bool paired =
          nest && nest->pairedDim >= 0 && coord.base &&
          (coord.base == nest->indices[nest->pairedDim] || coord.base == nest->second);
      if (!paired)
        guard.condition = both(guard.condition, less(coord.base ? coord.base : i64(0), extent));
      continue;
    }
    guard.mask = guard.mask ? arith::AndIOp::create(b, loc, guard.mask, mask).getResult() : mask;
  }
  guard.view = access.view;
  return guard;
}

// Returns the guard of a partition access in the loop body that is being emitted.
Guard TileLowering::guardOf(Operation* op, const Coords& coords, int depth) {
  // Code hoisted out of the lane loops serves both the unguarded and the guarded loop, so it needs
  // the guard.
  if (!nest->proved.contains(op) || depth < nest->inner) return guardOf(accesses[op], coords);
  if (nest->inBounds) return {};
  if (!nest->lead) return guardOf(accesses[op], coords);
  Guard guard;  // a nonzero lead implies that the whole first register is inside
  if (anyLanes(coords))
    guard.mask = arith::CmpIOp::create(
        b, loc, arith::CmpIPredicate::slt, iota(b.getI32Type(), nest->lanes),
        registers.splat(loc, arith::TruncIOp::create(b, loc, b.getI32Type(), nest->lead),
                        nest->lanes));
  return guard;
}

// Returns the guard's condition and mask as one mask with `lanes` lanes.
static Value wholeMask(OpBuilder& b, Location loc, Registers& registers, Guard guard,
                       int64_t lanes) {
  Value condition = guard.condition
                        ? guard.condition
                        : arith::ConstantOp::create(b, loc, b.getBoolAttr(true)).getResult();
  Value all = registers.splat(loc, condition, lanes);
  if (!guard.mask) return all;
  return guard.condition ? arith::AndIOp::create(b, loc, guard.mask, all).getResult() : guard.mask;
}

// Returns the address of a masked access. If the condition is false, the row is outside the view,
// and the address is that of the view's first element. A masked access to an unmapped page would
// cost hundreds of cycles.
Value TileLowering::placeOf(Value pointer, const Guard& guard) {
  if (!guard.condition || !guard.view) return pointer;
  return arith::SelectOp::create(b, loc, guard.condition, pointer, guard.view);
}

//===-- Loads and stores ------------------------------------------------------===//

// `align` is the alignment of `from` in bytes; 0 means the element's size.
Value TileLowering::load(Address from, Type element, Guard guard, Value otherwise, int64_t lanes,
                         int64_t align) {
  Type stored = storageType(element), type = lanes == 1 ? stored : VectorType::get({lanes}, stored);
  unsigned alignment = align ? align : storageBytes(element);
  if (lanes == 1) {
    if (!guard.condition)
      return registers.fromMemory(loc, LLVM::LoadOp::create(b, loc, type, from.pointer, alignment),
                                  element);
    auto branch =
        scf::IfOp::create(b, loc, TypeRange{registerType(element)}, guard.condition, true, true);
    OpBuilder::InsertionGuard insertion(b);
    b.setInsertionPointToEnd(&branch.getThenRegion().front());
    Value value = registers.fromMemory(
        loc, LLVM::LoadOp::create(b, loc, type, from.pointer, alignment), element);
    scf::YieldOp::create(b, loc, value);
    b.setInsertionPointToEnd(&branch.getElseRegion().front());
    scf::YieldOp::create(b, loc, otherwise);
    return branch.getResult(0);
  }
  if (!from.scattered && !guard.condition && !guard.mask)
    return registers.fromMemory(loc, LLVM::LoadOp::create(b, loc, type, from.pointer, alignment),
                                element);
  Value mask = wholeMask(b, loc, registers, guard, lanes);
  Value rest = registers.splat(loc, registers.toMemory(loc, otherwise, element), lanes);
  Value value;
  if (from.scattered)
    value = LLVM::masked_gather::create(b, loc, type, from.pointer, mask, rest, alignment);
  else
    value = LLVM::MaskedLoadOp::create(b, loc, type, placeOf(from.pointer, guard), mask, rest,
                                       alignment);
  return registers.fromMemory(loc, value, element);
}

void TileLowering::store(Address to, Type element, Value value, Guard guard, int64_t lanes,
                         int64_t align) {
  unsigned alignment = align ? align : storageBytes(element);
  value = registers.toMemory(loc, registers.splat(loc, value, lanes), element);
  if (lanes == 1) {
    if (!guard.condition) {
      LLVM::StoreOp::create(b, loc, value, to.pointer, alignment);
      return;
    }
    auto branch = scf::IfOp::create(b, loc, TypeRange{}, guard.condition, true, false);
    OpBuilder::InsertionGuard insertion(b);
    b.setInsertionPointToStart(&branch.getThenRegion().front());
    LLVM::StoreOp::create(b, loc, value, to.pointer, alignment);
    if (!branch.getThenRegion().front().mightHaveTerminator()) scf::YieldOp::create(b, loc);
    return;
  }
  if (!to.scattered && !guard.condition && !guard.mask) {
    if (nest->streams) alignment = std::min(lanes * storageBytes(element), kLine);
    LLVM::StoreOp::create(b, loc, value, to.pointer, alignment, /*isVolatile=*/false,
                          nest->streams);
    return;
  }
  Value mask = wholeMask(b, loc, registers, guard, lanes);
  if (to.scattered)
    LLVM::masked_scatter::create(b, loc, value, to.pointer, mask, alignment);
  else
    LLVM::MaskedStoreOp::create(b, loc, value, placeOf(to.pointer, guard), mask, alignment);
}

Address TileLowering::bufferAddress(Buffer* buffer, const Coords& coords) {
  Value origin =
      LLVM::GEPOp::create(b, loc, arena.getType(), b.getI8Type(), arena, i64(buffer->offset));
  SmallVector<Value> strides(buffer->shape.size());
  int64_t stride = 1;
  for (size_t k = buffer->shape.size(); k-- > 0; stride *= buffer->shape[k])
    strides[k] = i64(stride);
  return address(origin, buffer->element, coords, strides);
}

Value TileLowering::bufferLoad(Buffer* buffer, const Coords& coords) {
  int64_t lanes = anyLanes(coords) ? nest->lanes : 1;
  Address at = bufferAddress(buffer, coords);
  Value unused = arith::ConstantOp::create(b, loc, b.getZeroAttr(registerType(buffer->element)));
  return load(at, buffer->element, {}, unused, lanes, 0);
}

void TileLowering::bufferStore(Buffer* buffer, const Coords& coords, Value value) {
  int64_t lanes = anyLanes(coords) ? nest->lanes : 1;
  const bool around = std::exchange(nest->streams, false);  // buffers stay in the cache
  store(bufferAddress(buffer, coords), buffer->element, value, {}, lanes, 0);
  nest->streams = around;
}

}  // namespace ligerdsl::compiler::cpu
