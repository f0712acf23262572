// load_tile and store_tile: addresses and masks of partitioned views.
//
// The tile's position costs one 64-bit offset; inside the tile, offsets are 32-bit wherever static strides keep them
// small, and what differs between the registers of a thread is a constant wherever strides are static. A chunk (up to
// 16 bytes of neighbouring elements, as far as base, strides and layout are known to be aligned) is one access.
//
// Masks, from cheap to dear, decided per dimension:
//   1. none: static sizes prove the tile inside the view;
//   2. one predicate for the tile: a squeezed dimension;
//   3. one predicate per chunk: remaining = min(size - tile origin, tile size), compared with the chunk's coordinate;
//   4. the last dimension may end inside a chunk: chunks that fit are moved as in 3; the thread that holds the
//   straddling
//      chunk then branches to an element-by-element access.
#include <map>
#include <numeric>

#include "compiler/target/nvptx/memory_access.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// A partition access of one op, resolved to this thread.
class TileAccess {
 public:
  TileAccess(ThreadLowering& t, Value view, ValueRange indices, ArrayRef<int64_t> tileShape, RankedTensorType tile)
      : t(t),
        view(cast<tile::ViewType>(view.getType())),
        slots(t.pieces(view)),
        tileShape(tileShape),
        layout(tile ? &t.layout(tile) : nullptr),
        element(this->view.getElementType()) {
    for (Value index : indices) indexValues.push_back(t.scalar(index));
    for (size_t axis = 0; axis < tileShape.size(); ++axis)
      if (tileShape[axis]) tileAxes.push_back(axis);
    chunk = chunkSize();
    computeOrigin();
    for (size_t axis = 0; axis < tileShape.size(); ++axis) computeMask(axis);
  }

  int64_t registers() const { return layout ? layout->registers() : 1; }

  /// Address of the chunk that begins at a register.
  Value pointer(int64_t reg) {
    int64_t constantBytes = 0;
    Value dynamic;
    for (auto [dim, axis] : llvm::enumerate(tileAxes)) {
      auto [base, offset] = t.coordinate(*layout, reg, dim);
      if (base != layout->origin[dim]) dynamic = add(dynamic, scaled(difference(base, layout->origin[dim]), axis));
      if (offset == 0) continue;
      if (view.isDynamicStride(axis))
        dynamic = add(dynamic, times(stride(axis), offset * bytes()));
      else
        constantBytes += offset * view.getStrides()[axis] * bytes();
    }
    Value address = threadAddress;
    if (dynamic) address = arith::AddIOp::create(t.b, t.loc, address, dynamic);
    Value pointer = globalPointer(t, address);
    if (constantBytes == 0) return pointer;
    if (!llvm::isInt<31>(constantBytes))
      return LLVM::GEPOp::create(t.b, t.loc, pointer.getType(), t.b.getI8Type(), pointer,
                                 ArrayRef<LLVM::GEPArg>{t.constant(constantBytes, 64)});
    return LLVM::GEPOp::create(t.b, t.loc, pointer.getType(), t.b.getI8Type(), pointer,
                               ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(constantBytes)});
  }

  /// Address of an access without tile dimensions.
  Value scalarAddress() const { return threadAddress; }

  /// True where the whole chunk is inside the view; null = always.
  Value inside(int64_t reg) {
    Value predicate = uniform;
    for (auto [dim, axis] : llvm::enumerate(tileAxes))
      predicate = t.both(predicate, fits(reg, dim, isLast(axis) ? chunk : 1));
    return predicate;
  }

  /// True if a chunk may end outside of the view while it begins inside (case 4).
  bool mayStraddle() const {
    if (chunk == 1 || tileAxes.empty()) return false;
    size_t axis = tileAxes.back();
    return remaining[axis] && sizeDivisor(axis) % chunk != 0;
  }

  // Case 4. Chunks and this thread's origin are multiples of `chunk`, so the straddling chunk of every line begins at
  // the same place, and the same number of its elements is inside, in every thread.

  /// Registers of chunks that differ along the last dimension only, line by line.
  SmallVector<SmallVector<int64_t>> lines() {
    std::map<std::vector<int64_t>, SmallVector<int64_t>> byOtherDims;
    for (int64_t reg = 0; reg < registers(); reg += chunk) {
      Place place;
      place.reg = reg;
      std::vector<int64_t> at = layout->map.coordinates(place);
      at.back() = 0;
      byOtherDims[at].push_back(reg);
    }
    SmallVector<SmallVector<int64_t>> result;
    for (auto& [at, registers] : byOtherDims) result.push_back(registers);
    return result;
  }
  /// True in a thread that holds the straddling chunks.
  Value holdsStraddle(ArrayRef<int64_t> line) {
    Value any;
    for (int64_t reg : line) any = any ? Value(arith::OrIOp::create(t.b, t.loc, any, straddles(reg))) : straddles(reg);
    return t.both(straddleHas(0), any);
  }
  /// True if the chunk at this register is the straddling one (given that there is one).
  Value straddles(int64_t reg) {
    return arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::eq, straddleBegin(),
                                 t.constant(lastCoordinate(reg)));
  }
  /// Whether element `i` of the straddling chunk is inside along the last dimension; decided here where the size is
  /// static.
  enum class Inside { no, yes, tested };
  Inside straddleKnows(int64_t i) const {
    size_t axis = tileAxes.back();
    if (view.isDynamicDim(axis)) return Inside::tested;
    return i < view.getShape()[axis] % chunk ? Inside::yes : Inside::no;
  }
  Value straddleHas(int64_t i) {
    if (straddleKnows(i) == Inside::yes) return {};
    Value count = arith::AndIOp::create(t.b, t.loc, remaining[tileAxes.back()], t.constant(chunk - 1));
    return arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sgt, count, t.constant(i));
  }
  /// Address of element `i` of the straddling chunk in the line of this register.
  Value straddlePointer(int64_t reg, int64_t i) {
    Value steps = arith::SubIOp::create(t.b, t.loc, straddleBegin(), t.constant(lastCoordinate(reg) - i));
    Value first = pointer(reg);
    return LLVM::GEPOp::create(t.b, t.loc, first.getType(), t.b.getI8Type(), first,
                               ArrayRef<LLVM::GEPArg>{times(steps, bytes())});
  }
  /// True where the line of this register is inside along every other dimension; null = always.
  Value lineInside(int64_t reg) {
    Value predicate = uniform;
    for (int dim = 0, n = tileAxes.size() - 1; dim < n; ++dim) predicate = t.both(predicate, fits(reg, dim, 1));
    return predicate;
  }

  int64_t bytes() const { return view.getElementBytes(); }

  ThreadLowering& t;
  tile::ViewType view;
  Pieces slots;
  ArrayRef<int64_t> tileShape;
  const ThreadLayout* layout;  // null when the access is one scalar
  Type element;
  int64_t chunk = 1;
  Value uniform;  // predicate of squeezed dimensions

 private:
  Value size(size_t axis) { return slots[1 + axis]; }
  Value stride(size_t axis) { return slots[1 + view.getRank() + axis]; }
  bool isLast(size_t axis) const { return axis == tileAxes.back(); }

  int64_t sizeDivisor(size_t axis) const {
    return view.isDynamicDim(axis) ? view.getDimDivisors()[axis] : view.getShape()[axis];
  }
  int64_t strideDivisor(size_t axis) const {
    int64_t known = view.getStrideDivisors()[axis];
    return view.isDynamicStride(axis) ? known : std::gcd(view.getStrides()[axis], int64_t(1) << 20);
  }

  int64_t lastCoordinate(int64_t reg) {
    Place place;
    place.reg = reg;
    return layout->map.coordinates(place).back();
  }
  // Where the straddling chunk begins, counted from this thread's first register.
  Value straddleBegin() {
    return arith::AndIOp::create(t.b, t.loc, remainingHere(tileAxes.size() - 1), t.constant(-chunk));
  }

  // Elements of one access: the layout's run, at most 16 bytes, as long as every address is a multiple of it.
  int64_t chunkSize() const {
    if (tileAxes.empty()) return 1;
    size_t last = tileAxes.back();
    if (view.isDynamicStride(last) || view.getStrides()[last] != 1 || !layout->disjoint) return 1;
    int64_t n = std::min(layout->width, 16 / bytes());
    for (; n > 1; n /= 2) {
      bool aligned = view.getAlignment() % (n * bytes()) == 0;
      for (size_t axis = 0; axis < tileShape.size(); ++axis)
        if (axis != last && !isZero(indexValues[axis], tileShape[axis])) aligned &= strideDivisor(axis) % n == 0;
      aligned &= tileShape[last] % n == 0 || isConstantZero(indexValues[last]);
      if (aligned) break;
    }
    return n;
  }

  static std::optional<int64_t> constantIndex(Value index) {
    APInt value;
    if (matchPattern(index, m_ConstantInt(&value))) return value.getSExtValue();
    return std::nullopt;
  }
  static bool isConstantZero(Value index) { return constantIndex(index) == 0; }
  // A dimension that never leaves element 0 does not care about its stride.
  static bool isZero(Value index, int64_t tileDim) { return tileDim <= 1 && isConstantZero(index); }

  Value add(Value a, Value c) { return a ? Value(arith::AddIOp::create(t.b, t.loc, a, c)) : c; }
  Value difference(Value a, Value c) { return arith::SubIOp::create(t.b, t.loc, a, c); }
  Value times(Value a, int64_t factor) {
    return factor == 1
               ? a
               : Value(arith::MulIOp::create(t.b, t.loc, a, t.constant(factor, a.getType().getIntOrFloatBitWidth())));
  }
  // An i32 coordinate times stride and element size, as i64 bytes.
  Value scaled(Value coordinate, size_t axis) {
    Value wide = arith::ExtSIOp::create(t.b, t.loc, t.b.getI64Type(), coordinate);
    if (!view.isDynamicStride(axis)) return times(wide, view.getStrides()[axis] * bytes());
    return times(arith::MulIOp::create(t.b, t.loc, wide, stride(axis)), bytes());
  }

  // threadAddress = base + tile origin + this thread's part of the tile, in bytes.
  void computeOrigin() {
    Value offset;
    for (size_t axis = 0; axis < tileShape.size(); ++axis) {
      if (isConstantZero(indexValues[axis])) continue;
      Value origin = times(indexValues[axis], std::max<int64_t>(tileShape[axis], 1));
      if (!view.isDynamicStride(axis))
        offset = add(offset, times(origin, view.getStrides()[axis] * bytes()));
      else
        offset = add(offset, times(arith::MulIOp::create(t.b, t.loc, origin, stride(axis)), bytes()));
    }
    threadAddress = add(offset, slots[0]);
    Value small;  // 32-bit offset
    int64_t reach = 0;
    for (auto [dim, axis] : llvm::enumerate(tileAxes)) {
      Value base = layout->origin[dim];
      if (isConstantZero(base)) continue;
      if (!view.isDynamicStride(axis) && llvm::isInt<31>(view.getStrides()[axis])) {
        int64_t step = view.getStrides()[axis] * bytes();
        int64_t most = std::abs(step) * tileShape[axis];
        if (llvm::isInt<31>(step) && reach + most < (int64_t(1) << 31)) {
          reach += most;
          small = add(small, times(base, step));
          continue;
        }
      }
      threadAddress = add(threadAddress, scaled(base, axis));
    }
    if (small) threadAddress = add(threadAddress, arith::ExtSIOp::create(t.b, t.loc, t.b.getI64Type(), small));
  }

  // Fills `uniform` or `remaining` for a dimension that is not proved inside.
  void computeMask(size_t axis) {
    remaining.resize(tileShape.size());
    int64_t tile = std::max<int64_t>(tileShape[axis], 1);
    std::optional<int64_t> index = constantIndex(indexValues[axis]);
    bool known = index && *index >= 0 && !view.isDynamicDim(axis);
    if (known && (*index + 1) * tile <= view.getShape()[axis]) return;
    Value origin = times(indexValues[axis], tile);
    // As an unsigned comparison this rejects negative indices as well.
    Value begins = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ult, origin, size(axis));
    if (tileShape[axis] <= 1 || sizeDivisor(axis) % tile == 0) {
      uniform = t.both(uniform, begins);
      return;
    }
    Value left = difference(size(axis), origin);
    Value limit = t.constant(tile, 64);
    left = arith::MinUIOp::create(t.b, t.loc, left, limit);
    left = arith::SelectOp::create(t.b, t.loc, begins, left, t.constant(0, 64));
    remaining[axis] = arith::TruncIOp::create(t.b, t.loc, t.b.getI32Type(), left);
  }

  // How many elements of a dimension lie at or after this thread's first register.
  Value remainingHere(int dim) {
    Value& here = remainingAtThread[dim];
    if (!here) here = difference(remaining[tileAxes[dim]], layout->origin[dim]);
    return here;
  }
  Value leftOf(Value left, const Coordinate& at, int dim) {
    if (at.base == layout->origin[dim]) return left;
    return difference(remaining[tileAxes[dim]], at.base);
  }

  // coordinate(reg) + n <= remaining
  Value fits(int64_t reg, int dim, int64_t n) {
    if (!remaining[tileAxes[dim]]) return {};
    Coordinate at = t.coordinate(*layout, reg, dim);
    Value left = leftOf(remainingHere(dim), at, dim);
    return arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sge, left, t.constant(at.offset + n));
  }

  SmallVector<Value> indexValues;
  SmallVector<size_t> tileAxes;  // view axis of every tile dimension
  SmallVector<Value> remaining;  // i32 per view axis, null where nothing needs testing
  llvm::SmallDenseMap<int, Value> remainingAtThread;
  Value threadAddress;  // i64
};

SmallVector<Value> loadScalar(TileAccess& access, Value pad, AccessHints hints) {
  return loadElements(access.t, globalPointer(access.t, access.scalarAddress()), access.element, 1, access.uniform,
                      {pad}, hints);
}

// Reads the straddling chunks element by element into `loaded`.
void loadStraddling(TileAccess& access, SmallVectorImpl<Value>& loaded, Value pad, AccessHints hints) {
  ThreadLowering& t = access.t;
  auto lines = access.lines();
  SmallVector<Type> types(loaded.size(), access.element);
  auto tail = scf::IfOp::create(t.b, t.loc, types, access.holdsStraddle(lines[0]), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(t.b);
  t.b.setInsertionPointToStart(tail.elseBlock());
  scf::YieldOp::create(t.b, t.loc, loaded);
  t.b.setInsertionPointToStart(tail.thenBlock());
  for (ArrayRef<int64_t> line : lines) {
    SmallVector<Value> exact;
    for (int64_t i = 0; i < access.chunk; ++i) {
      if (access.straddleKnows(i) == TileAccess::Inside::no)
        exact.push_back(pad);
      else
        llvm::append_range(exact,
                           loadElements(t, access.straddlePointer(line[0], i), access.element, 1,
                                        t.both(access.lineInside(line[0]), access.straddleHas(i)), {pad}, hints));
    }
    Value chunk = t.pack(exact);
    for (int64_t reg : line) {
      Value whole = t.pack(ArrayRef(loaded).slice(reg, access.chunk));
      Value merged = arith::SelectOp::create(t.b, t.loc, access.straddles(reg), chunk, whole);
      for (int64_t i = 0; i < access.chunk; ++i) loaded[reg + i] = t.extract(merged, i);
    }
  }
  scf::YieldOp::create(t.b, t.loc, loaded);
  loaded.assign(tail.result_begin(), tail.result_end());
}

void storeStraddling(TileAccess& access, ArrayRef<Value> elements, Value owner, AccessHints hints) {
  ThreadLowering& t = access.t;
  auto lines = access.lines();
  auto tail = scf::IfOp::create(t.b, t.loc, t.both(owner, access.holdsStraddle(lines[0])), /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(t.b);
  t.b.setInsertionPointToStart(tail.thenBlock());
  for (ArrayRef<int64_t> line : lines) {
    Value chunk;
    for (int64_t reg : line) {
      Value candidate = t.pack(elements.slice(reg, access.chunk));
      chunk = chunk ? Value(arith::SelectOp::create(t.b, t.loc, access.straddles(reg), candidate, chunk)) : candidate;
    }
    for (int64_t i = 0; i < access.chunk && access.straddleKnows(i) != TileAccess::Inside::no; ++i)
      storeElements(t, access.straddlePointer(line[0], i), {t.extract(chunk, i)},
                    t.both(access.lineInside(line[0]), access.straddleHas(i)), hints);
  }
}

LogicalResult lowerLoadTile(ThreadLowering& t, tile::LoadTileOp op) {
  auto tensor = dyn_cast<RankedTensorType>(op.getType());
  TileAccess access(t, op.getView(), op.getIndices(), op.getTileShape(), tensor);
  AccessHints hints{op.getCache(), op.getEvict()};
  TypedAttr padAttr = op.getPadAttr();
  Value pad = arith::ConstantOp::create(t.b, t.loc, padAttr ? padAttr : t.b.getZeroAttr(access.element));
  if (!tensor) {
    t.define(op, Pieces(loadScalar(access, pad, hints)));
    return success();
  }
  SmallVector<Value> pads(access.chunk, pad), loaded;
  for (int64_t reg = 0; reg < access.registers(); reg += access.chunk)
    llvm::append_range(
        loaded, loadElements(t, access.pointer(reg), access.element, access.chunk, access.inside(reg), pads, hints));
  if (access.mayStraddle()) loadStraddling(access, loaded, pad, hints);
  t.defineElements(op, loaded);
  return success();
}

LogicalResult lowerStoreTile(ThreadLowering& t, tile::StoreTileOp op) {
  auto tensor = dyn_cast<RankedTensorType>(op.getValue().getType());
  TileAccess access(t, op.getView(), op.getIndices(), op.getTileShape(), tensor);
  AccessHints hints{op.getCache(), op.getEvict()};
  SmallVector<Value> elements = t.elements(op.getValue());
  if (!tensor) {
    Value first = t.both(access.uniform, t.threadMaskIsZero(32 * t.numWarps() - 1));
    storeElements(t, globalPointer(t, access.scalarAddress()), elements, first, hints);
    return success();
  }
  Value owner = t.ownerPredicate(*access.layout);
  for (int64_t reg = 0; reg < access.registers(); reg += access.chunk)
    storeElements(t, access.pointer(reg), ArrayRef(elements).slice(reg, access.chunk),
                  t.both(owner, access.inside(reg)), hints);
  if (access.mayStraddle()) storeStraddling(access, elements, owner, hints);
  return success();
}

LogicalResult lowerViewPtr(ThreadLowering& t, tile::ViewPtrOp op) {
  t.define(op, {t.pieces(op.getView())[0]});
  return success();
}

}  // namespace

void addViewLowerings(LoweringTable& table) {
  table.add<tile::LoadTileOp, lowerLoadTile>();
  table.add<tile::StoreTileOp, lowerStoreTile>();
  table.add<tile::ViewPtrOp, lowerViewPtr>();
}

}  // namespace ligerdsl::compiler::nvptx
