// load_tile and store_tile: addresses and masks of partitioned views.
//
// The tile's position costs one 64-bit offset; inside the tile, offsets are 32-bit wherever static strides keep them small, and
// what differs between the registers of a thread is a constant wherever strides are static. A chunk (up to 16 bytes of
// neighbouring elements, as far as base, strides and layout are known to be aligned) is one access.
//
// Masks, from cheap to dear, decided per dimension:
//   1. none: static sizes prove the tile inside the view;
//   2. one predicate for the tile: a squeezed dimension;
//   3. one predicate per chunk: remaining = min(size - tile origin, tile size), compared with the chunk's coordinate;
//   4. the last dimension may end inside a chunk: chunks that fit are moved as in 3; the thread that holds the straddling
//      chunk then branches to an element-by-element access.
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
      : t(t), view(cast<tile::ViewType>(view.getType())), slots(t.pieces(view)), tileShape(tileShape),
        layout(tile ? &t.layout(tile) : nullptr), element(this->view.getElementType()) {
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

  /// Address of element `i` of that chunk.
  Value elementPointer(int64_t reg, int64_t i) {
    Value first = pointer(reg);
    return LLVM::GEPOp::create(t.b, t.loc, first.getType(), t.b.getI8Type(), first,
                               ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i * bytes())});
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

  /// True where element `i` of a chunk is inside the view.
  Value elementInside(int64_t reg, int64_t i) {
    Value predicate = uniform;
    for (auto [dim, axis] : llvm::enumerate(tileAxes)) predicate = t.both(predicate, fits(reg, dim, isLast(axis) ? i + 1 : 1));
    return predicate;
  }

  /// True if a chunk may end outside of the view while it begins inside (case 4).
  bool mayStraddle() const {
    if (chunk == 1 || tileAxes.empty()) return false;
    size_t axis = tileAxes.back();
    return remaining[axis] && sizeDivisor(axis) % chunk != 0;
  }

  /// In case 4: true in threads that hold the end of the last dimension strictly inside a chunk.
  Value holdsStraddle() {
    int dim = tileAxes.size() - 1;
    Value left = remainingHere(dim);
    Value any;
    for (int64_t reg = 0; reg < registers(); reg += chunk) {
      Coordinate at = t.coordinate(*layout, reg, dim);
      auto test = [&](int64_t n, arith::CmpIPredicate predicate) -> Value {
        return arith::CmpIOp::create(t.b, t.loc, predicate, leftOf(left, at, dim), t.constant(at.offset + n));
      };
      Value here = t.both(test(0, arith::CmpIPredicate::sgt), test(chunk, arith::CmpIPredicate::slt));
      any = any ? Value(arith::OrIOp::create(t.b, t.loc, any, here)) : here;
    }
    return any;
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

  // Elements of one access: the layout's run, at most 16 bytes, as long as every address is a multiple of it.
  int64_t chunkSize() const {
    if (tileAxes.empty()) return 1;
    size_t last = tileAxes.back();
    if (view.isDynamicStride(last) || view.getStrides()[last] != 1) return 1;
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
    return factor == 1 ? a : Value(arith::MulIOp::create(t.b, t.loc, a, t.constant(factor, a.getType().getIntOrFloatBitWidth())));
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
  SmallVector<size_t> tileAxes;   // view axis of every tile dimension
  SmallVector<Value> remaining;   // i32 per view axis, null where nothing needs testing
  llvm::SmallDenseMap<int, Value> remainingAtThread;
  Value threadAddress;            // i64
};

SmallVector<Value> loadScalar(TileAccess& access, Value pad, AccessHints hints) {
  return loadElements(access.t, globalPointer(access.t, access.scalarAddress()), access.element, 1, access.uniform, {pad}, hints);
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
    llvm::append_range(loaded, loadElements(t, access.pointer(reg), access.element, access.chunk, access.inside(reg), pads, hints));

  if (access.mayStraddle()) {
    SmallVector<Type> types(loaded.size(), access.element);
    auto tail = scf::IfOp::create(t.b, t.loc, types, access.holdsStraddle(), /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(t.b);
    t.b.setInsertionPointToStart(tail.thenBlock());
    SmallVector<Value> exact;
    for (int64_t reg = 0; reg < access.registers(); ++reg) {
      int64_t first = reg - reg % access.chunk, i = reg % access.chunk;
      Value one = access.elementPointer(first, i);
      llvm::append_range(exact, loadElements(t, one, access.element, 1, access.elementInside(first, i), {pad}, hints));
    }
    scf::YieldOp::create(t.b, t.loc, exact);
    t.b.setInsertionPointToStart(tail.elseBlock());
    scf::YieldOp::create(t.b, t.loc, loaded);
    loaded.assign(tail.result_begin(), tail.result_end());
  }
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
  auto chunkOf = [&](int64_t reg, int64_t n) { return ArrayRef(elements).slice(reg, n); };
  for (int64_t reg = 0; reg < access.registers(); reg += access.chunk)
    storeElements(t, access.pointer(reg), chunkOf(reg, access.chunk), t.both(owner, access.inside(reg)), hints);

  if (access.mayStraddle()) {
    auto tail = scf::IfOp::create(t.b, t.loc, t.both(owner, access.holdsStraddle()), /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(t.b);
    t.b.setInsertionPointToStart(tail.thenBlock());
    for (int64_t reg = 0; reg < access.registers(); ++reg) {
      int64_t first = reg - reg % access.chunk, i = reg % access.chunk;
      storeElements(t, access.elementPointer(first, i), chunkOf(reg, 1), access.elementInside(first, i), hints);
    }
  }
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
