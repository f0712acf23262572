#include "compiler/target/nvptx/tile_access.h"

#include <map>
#include <numeric>

#include "compiler/analysis/divisibility.h"
#include "compiler/dialect/slice_step.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {

TileAccess::TileAccess(ThreadLowering& t, Value view, ValueRange indices,
                       ArrayRef<int64_t> tileShape, RankedTensorType tile, Value alignmentOffset,
                       OffsetKind kind, Mover mover)
    : t(t),
      view(cast<tile::ViewType>(view.getType())),
      layout(tile ? &t.layout(tile) : nullptr),
      element(this->view.getElementType()),
      slots(t.pieces(view)),
      tileShape(tileShape),
      alignmentOffset(alignmentOffset ? t.scalar(alignmentOffset) : Value()),
      offsetKind(alignmentOffset ? kind : OffsetKind::none),
      mover(mover),
      maxAlignmentOffset(alignmentOffset ? tile::maxAlignmentOffset(alignmentOffset) : 0) {
  for (Value index : indices) {
    indexValues.push_back(t.scalar(index));
    indexDivisors.push_back(divisorOf(index));
  }
  for (size_t axis = 0; axis < tileShape.size(); ++axis)
    if (tileShape[axis]) tileAxes.push_back(axis);
  chunk = chunkSize();
  computeOrigin();
  remaining.resize(tileShape.size());
  staticLeft.resize(tileShape.size());
  if (mover != Mover::copy_inside)
    for (size_t axis = 0; axis < tileShape.size(); ++axis) computeMask(axis);
  if (this->alignmentOffset) begin = computeBegin();
}

// Only the first tile has columns before the row, unless the alignment offset can exceed a tile's
// width.
Value TileAccess::computeBegin() {
  Value index = indexValues.back();
  if (tileShape.back() > maxAlignmentOffset) {
    Value isFirst =
        arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::eq, index, t.constant(0, 64));
    return arith::SelectOp::create(t.b, t.loc, isFirst, alignmentOffset, t.constant(0));
  }
  Value ahead = difference(arith::ExtUIOp::create(t.b, t.loc, t.b.getI64Type(), alignmentOffset),
                           times(index, tileShape.back()));
  ahead = arith::MaxSIOp::create(t.b, t.loc, ahead, t.constant(0, 64));
  return arith::TruncIOp::create(t.b, t.loc, t.b.getI32Type(), ahead);
}

Value TileAccess::isAligned() {
  Value low = arith::TruncIOp::create(t.b, t.loc, t.b.getI32Type(), threadAddress);
  Value rest = arith::AndIOp::create(t.b, t.loc, low, t.constant(tile::kVectorBytes - 1));
  return arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::eq, rest, t.constant(0));
}

Value TileAccess::pointer(int64_t reg, int64_t i) {
  int64_t constantBytes = i * bytes();
  Value dynamic;
  for (auto [dim, axis] : llvm::enumerate(tileAxes)) {
    auto [base, offset] = t.coordinate(*layout, reg, dim);
    if (base != layout->origin[dim])
      dynamic = add(dynamic, scaled(difference(base, layout->origin[dim]), axis));
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

Value TileAccess::inside(int64_t reg) {
  Value predicate = isBeforeEnd(reg);
  return begin ? t.both(predicate, isAtOrAfterBegin(reg)) : predicate;
}

Value TileAccess::isBeforeEnd(int64_t reg) {
  Value predicate = uniform;
  for (auto [dim, axis] : llvm::enumerate(tileAxes))
    predicate = t.both(predicate, fits(reg, dim, isLast(axis) ? chunk : 1));
  return predicate;
}

Value TileAccess::bytesInside(int64_t reg) {
  if (!mayStraddle()) {
    Value whole = isBeforeEnd(reg);
    if (!whole) return {};
    return arith::SelectOp::create(t.b, t.loc, whole, t.constant(chunk * bytes()), t.constant(0));
  }
  int last = static_cast<int>(tileAxes.size()) - 1;
  Coordinate at = t.coordinate(*layout, reg, last);
  Value left = difference(leftOf(remainingHere(last), at, last), t.constant(at.offset));
  left = arith::MaxSIOp::create(t.b, t.loc, left, t.constant(0));
  left = times(arith::MinSIOp::create(t.b, t.loc, left, t.constant(chunk)), bytes());
  Value line = lineInside(reg);
  return line ? Value(arith::SelectOp::create(t.b, t.loc, line, left, t.constant(0))) : left;
}

bool TileAccess::mayStraddle() const {
  if (chunk == 1 || tileAxes.empty()) return false;
  size_t axis = tileAxes.back();
  return remaining[axis] && sizeDivisor(axis) % chunk != 0;
}

SmallVector<SmallVector<int64_t>> TileAccess::lines() {
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

Value TileAccess::holdsStraddle(ArrayRef<int64_t> line) {
  Value any;
  for (int64_t reg : line)
    any = any ? Value(arith::OrIOp::create(t.b, t.loc, any, straddles(reg))) : straddles(reg);
  Value count =
      arith::AndIOp::create(t.b, t.loc, remaining[tileAxes.back()], t.constant(chunk - 1));
  Value exists = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ne, count, t.constant(0));
  return arith::AndIOp::create(t.b, t.loc, exists, any);
}

Value TileAccess::holdsBegin() {
  Value holds = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::eq, layout->origin.back(),
                                      t.constant(0));
  holds = t.both(holds,
                 arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ne, begin, t.constant(0)));
  return t.both(uniform, t.both(holds, fits(0, tileAxes.size() - 1, chunk)));
}

SmallVector<SmallVector<int64_t>> TileAccess::firstChunks() {
  SmallVector<SmallVector<int64_t>> result;
  for (ArrayRef<int64_t> line : lines())
    if (auto first = llvm::to_vector(
            llvm::make_filter_range(line, [&](int64_t reg) { return lastCoordinate(reg) == 0; }));
        !first.empty())
      result.push_back(first);
  return result;
}

// The predicate omits the condition common to all lines, which holdsBegin() tests.
Value TileAccess::firstLineInside(int64_t reg) {
  Value predicate;
  for (int dim = 0, n = tileAxes.size() - 1; dim < n; ++dim)
    predicate = t.both(predicate, fits(reg, dim, 1));
  return predicate;
}

Value TileAccess::hasBegun(int64_t i) {
  return arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sle, begin, t.constant(i));
}

Value TileAccess::straddles(int64_t reg) {
  return arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::eq, straddleBegin(),
                               t.constant(lastCoordinate(reg)));
}

TileAccess::Inside TileAccess::straddleKnows(int64_t i) const {
  size_t axis = tileAxes.back();
  if (view.isDynamicDim(axis) || begin) return Inside::tested;
  return i < view.getShape()[axis] % chunk ? Inside::yes : Inside::no;
}

Value TileAccess::straddleHas(int64_t i) {
  if (straddleKnows(i) == Inside::yes) return {};
  Value left = remaining[tileAxes.back()];
  Value count = arith::AndIOp::create(t.b, t.loc, left, t.constant(chunk - 1));
  Value has = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sgt, count, t.constant(i));
  if (!begin) return has;
  // The row may begin and end in the same chunk.
  Value at = arith::OrIOp::create(
      t.b, t.loc, arith::AndIOp::create(t.b, t.loc, left, t.constant(-chunk)), t.constant(i));
  return t.both(has, arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sge, at, begin));
}

Value TileAccess::isAtOrAfterBegin(int64_t reg) {
  Coordinate at = t.coordinate(*layout, reg, tileAxes.size() - 1);
  // Coordinates larger than this are never before `begin`.
  const int64_t furthest = chunk > 1 ? 0 : maxAlignmentOffset;
  if (layout->disjoint && at.offset > furthest) return {};
  Value here = arith::AddIOp::create(t.b, t.loc, at.base, t.constant(at.offset));
  return arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sge, here, begin);
}

Value TileAccess::straddlePointer(int64_t reg, int64_t i) {
  Value steps =
      arith::SubIOp::create(t.b, t.loc, straddleBegin(), t.constant(lastCoordinate(reg) - i));
  Value first = pointer(reg);
  return LLVM::GEPOp::create(t.b, t.loc, first.getType(), t.b.getI8Type(), first,
                             ArrayRef<LLVM::GEPArg>{times(steps, bytes())});
}

Value TileAccess::lineInside(int64_t reg) {
  Value predicate = uniform;
  for (int dim = 0, n = tileAxes.size() - 1; dim < n; ++dim)
    predicate = t.both(predicate, fits(reg, dim, 1));
  return predicate;
}

Value TileAccess::size(size_t axis) {
  Value size = slots[1 + axis];
  return hasAlignmentOffset(axis)
             ? add(size, arith::ExtUIOp::create(t.b, t.loc, t.b.getI64Type(), alignmentOffset))
             : size;
}

int64_t TileAccess::sizeDivisor(size_t axis) const {
  if (hasAlignmentOffset(axis)) return 1;
  return view.isDynamicDim(axis) ? view.getDimDivisors()[axis] : view.getShape()[axis];
}

int64_t TileAccess::strideDivisor(size_t axis) const {
  int64_t known = view.getStrideDivisors()[axis];
  return view.isDynamicStride(axis) ? known : std::gcd(view.getStrides()[axis], int64_t(1) << 20);
}

// Returns a divisor, in elements, of the address offset that an axis contributes. Rows of one tile
// differ by the stride. The offset of a one-row tile is a multiple of the stride times the index's
// divisor.
int64_t TileAccess::offsetDivisor(size_t axis) const {
  const int64_t stride = powerOfTwoPart(strideDivisor(axis));
  return tileShape[axis] > 1
             ? stride
             : std::min(stride, int64_t{1} << 20) * powerOfTwoPart(indexDivisors[axis]);
}

int64_t TileAccess::lastCoordinate(int64_t reg) {
  Place place;
  place.reg = reg;
  return layout->map.coordinates(place).back();
}

Value TileAccess::straddleBegin() {
  return arith::AndIOp::create(t.b, t.loc, remainingHere(tileAxes.size() - 1), t.constant(-chunk));
}

int64_t TileAccess::chunkSize() const {
  if (tileAxes.empty()) return 1;
  size_t last = tileAxes.back();
  if (view.isDynamicStride(last) || view.getStrides()[last] != 1 || !layout->disjoint) return 1;
  int64_t n = std::min(layout->width, tile::kVectorBytes / bytes());
  if (offsetKind != OffsetKind::none) {
    const bool whole = maxAlignmentOffset < n && n * bytes() == tile::kVectorBytes &&
                       tileShape[last] % n == 0 && tile::rowsHaveOneOffset(view, tileShape);
    return offsetKind == OffsetKind::aligns && whole ? n : 1;
  }
  for (; n > 1; n /= 2) {
    bool aligned = view.getAlignment() % (n * bytes()) == 0;
    for (size_t axis = 0; axis < tileShape.size(); ++axis)
      if (axis != last && !isZero(indexValues[axis], tileShape[axis]))
        aligned &= offsetDivisor(axis) % n == 0;
    aligned &= tileShape[last] * powerOfTwoPart(indexDivisors[last]) % n == 0 ||
               isConstantZero(indexValues[last]);
    if (aligned) break;
  }
  // If the size is not a known multiple of the chunk, every load and store needs a branch for the
  // straddling chunk. For a few elements, smaller chunks that never straddle are cheaper.
  constexpr int64_t kFew = 4;
  const bool few = mover == Mover::access && view.isDynamicDim(last) && layout->registers() <= kFew;
  return few ? std::gcd(n, sizeDivisor(last)) : n;
}

std::optional<int64_t> TileAccess::constantIndex(Value index) {
  APInt value;
  if (matchPattern(index, m_ConstantInt(&value))) return value.getSExtValue();
  return std::nullopt;
}

Value TileAccess::add(Value a, Value c) {
  return a ? Value(arith::AddIOp::create(t.b, t.loc, a, c)) : c;
}

Value TileAccess::difference(Value a, Value c) {
  return arith::SubIOp::create(t.b, t.loc, a, c);
}

Value TileAccess::times(Value a, int64_t factor) {
  return factor == 1 ? a
                     : Value(arith::MulIOp::create(
                           t.b, t.loc, a, t.constant(factor, a.getType().getIntOrFloatBitWidth())));
}

Value TileAccess::scaled(Value coordinate, size_t axis) {
  Value wide = arith::ExtSIOp::create(t.b, t.loc, t.b.getI64Type(), coordinate);
  if (!view.isDynamicStride(axis)) return times(wide, view.getStrides()[axis] * bytes());
  return times(arith::MulIOp::create(t.b, t.loc, wide, stride(axis)), bytes());
}

void TileAccess::computeOrigin() {
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
  if (alignmentOffset) {
    Value before = arith::ExtUIOp::create(t.b, t.loc, t.b.getI64Type(), alignmentOffset);
    before = view.isDynamicStride(tileShape.size() - 1)
                 ? arith::MulIOp::create(t.b, t.loc, before, stride(tileShape.size() - 1))
                 : times(before, view.getStrides().back());
    threadAddress = difference(threadAddress, times(before, bytes()));
  }
  Value small;  // sum of the parts of the offset that fit in 32 bits
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
  if (small)
    threadAddress = add(threadAddress, arith::ExtSIOp::create(t.b, t.loc, t.b.getI64Type(), small));
}

bool TileAccess::isProvedInside(size_t axis) const {
  const std::optional<int64_t> index = constantIndex(indexValues[axis]);
  return index && *index >= 0 && !view.isDynamicDim(axis) &&
         (*index + 1) * std::max<int64_t>(tileShape[axis], 1) <= view.getShape()[axis];
}

Value TileAccess::isInside() {
  Value inside;
  for (size_t axis = 0; axis < tileShape.size(); ++axis) {
    if (isProvedInside(axis)) continue;
    const int64_t tile = std::max<int64_t>(tileShape[axis], 1);
    Value last =
        difference(size(axis), t.constant(tile, 64));  // largest start of a tile that is inside
    Value any =
        arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sge, last, t.constant(0, 64));
    // The comparison is unsigned, so it also rejects negative indices.
    Value begins = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ule,
                                         times(indexValues[axis], tile), last);
    inside = t.both(inside, t.both(any, begins));
  }
  return inside;
}

void TileAccess::computeMask(size_t axis) {
  if (isProvedInside(axis)) return;
  int64_t tile = std::max<int64_t>(tileShape[axis], 1);
  std::optional<int64_t> index = constantIndex(indexValues[axis]);
  bool known = index && *index >= 0 && !view.isDynamicDim(axis);
  Value origin = times(indexValues[axis], tile);
  // The comparison is unsigned, so it also rejects negative indices.
  Value begins = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ult, origin, size(axis));
  if (tileShape[axis] <= 1 || sizeDivisor(axis) % tile == 0) {
    uniform = t.both(uniform, begins);
    return;
  }
  // An alignment offset increases the size, so this is a lower bound.
  if (known) staticLeft[axis] = view.getShape()[axis] - *index * tile;
  Value left = difference(size(axis), origin);
  Value limit = t.constant(tile, 64);
  left = arith::MinUIOp::create(t.b, t.loc, left, limit);
  left = arith::SelectOp::create(t.b, t.loc, begins, left, t.constant(0, 64));
  remaining[axis] = arith::TruncIOp::create(t.b, t.loc, t.b.getI32Type(), left);
}

int64_t TileAccess::threadReach(int dim) const {
  int64_t reach = 0;
  for (Axis axis : {Axis::lane, Axis::warp, Axis::cta})
    for (const auto& basis : layout->map.bases(axis)) reach |= basis[dim];
  return reach;
}

Value TileAccess::remainingHere(int dim) {
  Value& here = remainingAtThread[dim];
  if (!here) here = difference(remaining[tileAxes[dim]], layout->origin[dim]);
  return here;
}

Value TileAccess::leftOf(Value left, const Coordinate& at, int dim) {
  if (at.base == layout->origin[dim]) return left;
  return difference(remaining[tileAxes[dim]], at.base);
}

Value TileAccess::fits(int64_t reg, int dim, int64_t n) {
  if (!remaining[tileAxes[dim]]) return {};
  Coordinate at = t.coordinate(*layout, reg, dim);
  std::optional<int64_t> known = staticLeft[tileAxes[dim]];
  if (known && layout->disjoint && at.offset + threadReach(dim) + n <= *known) return {};
  Value left = leftOf(remainingHere(dim), at, dim);
  return arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::sge, left,
                               t.constant(at.offset + n));
}

}  // namespace ligerdsl::compiler::nvptx
