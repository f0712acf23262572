#include "compiler/target/nvptx/unaligned_array.h"

#include "compiler/target/nvptx/shifted_words.h"
#include "compiler/target/nvptx/shuffle.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {

using arith::CmpIPredicate;

bool UnalignedArray::fits(const TileAccess& access) {
  const ThreadLayout& layout = *access.layout;
  const auto& lanes = layout.map.bases(Axis::lane);
  bool adjacent = layout.map.rank() == 1 && lanes.size() == 5;
  for (size_t bit = 0; adjacent && bit < lanes.size(); ++bit)
    adjacent = lanes[bit][0] == layout.width << bit;
  // With more elements per thread, shifted words would use too many registers.
  constexpr int64_t kMostElements = 16;
  return adjacent && layout.disjoint && !layout.map.isReplicated() &&
         access.registers() <= kMostElements && layout.width * access.bytes() >= 2 * kWordBytes;
}

UnalignedArray::UnalignedArray(ThreadLowering& t, TileAccess& access, Value view, Value index,
                               int64_t tileSize, Value alignmentOffset)
    : t(t),
      access(access),
      group(access.layout->width),
      unit(std::min(group, tile::kVectorBytes / access.bytes())) {
  Value address = LLVM::PtrToIntOp::create(t.b, t.loc, t.b.getI64Type(), access.pointer(0));
  Value low = arith::TruncIOp::create(t.b, t.loc, t.b.getI32Type(), address);
  low = arith::AndIOp::create(t.b, t.loc, low, t.constant(unitBytes() - 1));
  back = arith::DivUIOp::create(t.b, t.loc, low, t.constant(access.bytes()));
  isShifted = compare(CmpIPredicate::ne, back, t.constant(0));

  Value offset = alignmentOffset ? t.scalar(alignmentOffset) : t.constant(0);
  Value tileIndex = t.scalar(index);
  Value size = arith::AddIOp::create(t.b, t.loc, t.pieces(view)[1],
                                     arith::ExtUIOp::create(t.b, t.loc, t.b.getI64Type(), offset));
  Value origin = arith::MulIOp::create(t.b, t.loc, tileIndex, t.constant(tileSize, 64));
  // The comparison is unsigned, so it also rejects negative indices.
  Value begins = compare(CmpIPredicate::ult, origin, size);
  Value left = arith::SubIOp::create(t.b, t.loc, size, origin);
  left = arith::MinUIOp::create(t.b, t.loc, left, t.constant(tileSize + unit, 64));
  // A tile outside the array gets the end -unit: neither its elements nor those of the unit before
  // the tile are then inside.
  left = arith::SelectOp::create(t.b, t.loc, begins, left, t.constant(-unit, 64));
  end = arith::TruncIOp::create(t.b, t.loc, t.b.getI32Type(), left);
  // In later tiles, the first unit begins in the tile before, up to `unit` elements earlier.
  first =
      arith::SelectOp::create(t.b, t.loc, compare(CmpIPredicate::eq, tileIndex, t.constant(0, 64)),
                              offset, t.constant(-unit));
}

Value UnalignedArray::plus(Value a, int64_t c) {
  return c ? Value(arith::AddIOp::create(t.b, t.loc, a, t.constant(c))) : a;
}

Value UnalignedArray::compare(CmpIPredicate predicate, Value a, Value c) {
  return arith::CmpIOp::create(t.b, t.loc, predicate, a, c);
}

Value UnalignedArray::any(Value a, Value c) {
  return a ? Value(arith::OrIOp::create(t.b, t.loc, a, c)) : c;
}

Value UnalignedArray::columnOf(int64_t reg) {
  auto [base, offset] = t.coordinate(*access.layout, reg, 0);
  return plus(base, offset);
}

Value UnalignedArray::unitPointer(int64_t reg, int64_t elements) {
  Value bytes = arith::MulIOp::create(t.b, t.loc, back, t.constant(-access.bytes()));
  Value pointer = access.pointer(reg, elements);
  return LLVM::GEPOp::create(t.b, t.loc, pointer.getType(), t.b.getI8Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{bytes});
}

Value UnalignedArray::inside(Value column, int64_t count) {
  return t.both(compare(CmpIPredicate::sge, column, first),
                compare(CmpIPredicate::sle, plus(column, count), end));
}

Value UnalignedArray::crossesEnd() {
  Value crosses;
  for (int64_t reg = 0; reg < access.registers(); reg += group) {
    Value begin = arith::SubIOp::create(t.b, t.loc, columnOf(reg), back);
    Value last = arith::SelectOp::create(t.b, t.loc, isShifted, plus(begin, group + unit),
                                         plus(begin, group));
    crosses = any(crosses, compare(CmpIPredicate::slt, begin, first));
    crosses = any(crosses, t.both(compare(CmpIPredicate::slt, begin, end),
                                  compare(CmpIPredicate::sgt, last, end)));
  }
  return crosses;
}

SmallVector<Value> UnalignedArray::load(Value pad, AccessHints hints) {
  SmallVector<Value> words;
  const SmallVector<Value> pads(unit, pad);
  for (int64_t reg = 0; reg < access.registers(); reg += group) {
    Value begin = arith::SubIOp::create(t.b, t.loc, columnOf(reg), back);
    for (int64_t i = 0; i <= units(); ++i) {
      Value loads = inside(plus(begin, i * unit), unit);
      if (i == units()) loads = t.both(loads, isShifted);
      appendWords(
          t, loadElements(t, unitPointer(reg, i * unit), access.element, unit, loads, pads, hints),
          words);
    }
  }
  loadSingles(words, pad, hints);
  SmallVector<Value> elements;
  Value bytes = arith::MulIOp::create(t.b, t.loc, back, t.constant(access.bytes()));
  const int64_t unitWords = unitBytes() / kWordBytes, count = units() * unitWords;
  for (size_t i = 0; i < words.size(); i += count + unitWords)
    appendElements(t,
                   shiftWords(t, ArrayRef(words).slice(i, count + unitWords), bytes, access.bytes(),
                              unitWords / 2, count),
                   access.element, elements);
  return elements;
}

void UnalignedArray::loadSingles(SmallVectorImpl<Value>& words, Value pad, AccessHints hints) {
  auto branch = scf::IfOp::create(t.b, t.loc, ValueRange(words).getTypes(), crossesEnd(),
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(t.b);
  t.b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(t.b, t.loc, words);
  t.b.setInsertionPointToStart(branch.thenBlock());
  SmallVector<Value> exact;
  for (int64_t reg = 0; reg < access.registers(); reg += group) {
    Value begin = arith::SubIOp::create(t.b, t.loc, columnOf(reg), back);
    SmallVector<Value> elements;
    for (int64_t i = 0; i < group + unit; ++i)
      llvm::append_range(elements, loadElements(t, unitPointer(reg, i), access.element, 1,
                                                inside(plus(begin, i), 1), {pad}, hints));
    appendWords(t, elements, exact);
  }
  scf::YieldOp::create(t.b, t.loc, exact);
  words.assign(branch.getResults().begin(), branch.getResults().end());
}

void UnalignedArray::store(ArrayRef<Value> elements, AccessHints hints) {
  // Synchronises the warp, because another lane may have loaded a stored element, or may load it
  // later.
  const auto syncWarp = [&] { NVVM::SyncWarpOp::create(t.b, t.loc, t.constant(-1)); };
  syncWarp();
  for (int64_t reg = 0; reg < access.registers(); reg += group)
    storeUnits(reg, elements.slice(reg, group), hints);
  Value lane = t.threadField(0, 5);
  Value atEnd = any(compare(CmpIPredicate::eq, lane, t.constant(0)),
                    compare(CmpIPredicate::eq, lane, t.constant(31)));
  auto branch = scf::IfOp::create(t.b, t.loc, any(t.both(atEnd, isShifted), crossesEnd()),
                                  /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(t.b);
    t.b.setInsertionPointToStart(branch.thenBlock());
    for (int64_t reg = 0; reg < access.registers(); reg += group)
      storeSingles(reg, elements.slice(reg, group), hints);
  }
  syncWarp();
}

void UnalignedArray::storeUnits(int64_t reg, ArrayRef<Value> elements, AccessHints hints) {
  const int64_t unitWords = unitBytes() / kWordBytes;
  SmallVector<Value> own, words;
  appendWords(t, elements, own);
  for (Value word : ArrayRef(own).take_back(unitWords))
    words.push_back(shuffle(t, word, 1, NVVM::ShflKind::up));
  llvm::append_range(words, own);
  // The words begin one unit before the group.
  Value bytes =
      arith::SubIOp::create(t.b, t.loc, t.constant(unitBytes()),
                            arith::MulIOp::create(t.b, t.loc, back, t.constant(access.bytes())));
  SmallVector<Value> stored;
  appendElements(t, shiftWords(t, words, bytes, access.bytes(), unitWords, own.size()),
                 access.element, stored);
  Value begin = arith::SubIOp::create(t.b, t.loc, columnOf(reg), back);
  Value hasLower = compare(CmpIPredicate::ne, t.threadField(0, 5), t.constant(0));
  hasLower = any(hasLower, compare(CmpIPredicate::eq, back, t.constant(0)));
  for (int64_t i = 0; i < units(); ++i) {
    Value stores = inside(plus(begin, i * unit), unit);
    if (i == 0) stores = t.both(stores, hasLower);
    storeElements(t, unitPointer(reg, i * unit), ArrayRef(stored).slice(i * unit, unit), stores,
                  hints);
  }
}

// Stores the array's elements in the units that storeUnits skips.
void UnalignedArray::storeSingles(int64_t reg, ArrayRef<Value> elements, AccessHints hints) {
  Value column = columnOf(reg), begin = arith::SubIOp::create(t.b, t.loc, column, back);
  Value lane = t.threadField(0, 5);
  SmallVector<Value> left;  // per unit that overlaps the group: true if no lane stores it
  for (int64_t i = 0; i <= units(); ++i) {
    Value none = compare(CmpIPredicate::eq, inside(plus(begin, i * unit), unit), t.constant(0, 1));
    if (i == 0)
      none = any(none, t.both(isShifted, compare(CmpIPredicate::eq, lane, t.constant(0))));
    if (i == units()) none = any(none, compare(CmpIPredicate::eq, lane, t.constant(31)));
    left.push_back(none);
  }
  for (int64_t i = 0; i < group; ++i) {
    Value isInNext = compare(CmpIPredicate::sge, back, t.constant(unit - i % unit));
    Value alone = arith::SelectOp::create(t.b, t.loc, isInNext, left[i / unit + 1], left[i / unit]);
    storeElements(t, access.pointer(reg, i), {elements[i]},
                  t.both(alone, inside(plus(column, i), 1)), hints);
  }
}

}  // namespace ligerdsl::compiler::nvptx
