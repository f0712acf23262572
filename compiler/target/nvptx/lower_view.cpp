// Lowers load_tile, store_tile, prefetch_tile, view_ptr, slice and alignment_offset. TileAccess
// computes addresses and masks.
#include "compiler/analysis/row_alignment.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/slice_step.h"
#include "compiler/target/nvptx/shifted_words.h"
#include "compiler/target/nvptx/slice_bounds.h"
#include "compiler/target/nvptx/tile_access.h"
#include "compiler/target/nvptx/unaligned_array.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

SmallVector<Value> loadScalar(TileAccess& access, Value pad, AccessHints hints) {
  return loadElements(access.t, globalPointer(access.t, access.scalarAddress()), access.element, 1,
                      access.uniform, {pad}, hints);
}

// Packs 8-bit or 16-bit elements into 32-bit words, which are a branch's results. With separate
// results, the code would extract the elements from the loaded words at the branch. It would then
// wait for the load at the branch, not at the first use.
class Words {
 public:
  Words(ThreadLowering& t, Type element, int64_t chunk) : t(t), element(element) {
    const int64_t bits = element.getIntOrFloatBitWidth();
    if (bits == 8 || bits == 16) perWord = std::min<int64_t>(chunk, 32 / bits);
  }
  SmallVector<Value> of(ArrayRef<Value> elements) {
    if (perWord == 1) return SmallVector<Value>(elements);
    SmallVector<Value> words;
    for (size_t i = 0; i < elements.size(); i += perWord)
      words.push_back(
          t.bitcast(t.pack(elements.slice(i, perWord)), t.b.getIntegerType(perWord * width())));
    return words;
  }
  SmallVector<Value> elements(ValueRange words) {
    if (perWord == 1) return SmallVector<Value>(words);
    SmallVector<Value> all;
    for (Value word : words) {
      Value vector = t.bitcast(word, VectorType::get(perWord, element));
      for (int64_t i = 0; i < perWord; ++i) all.push_back(t.extract(vector, i));
    }
    return all;
  }
  int64_t perWord = 1;

 private:
  unsigned width() const { return element.getIntOrFloatBitWidth(); }

  ThreadLowering& t;
  Type element;
};

// Loads the straddling chunks (tile_access.h, case 4) into `loaded`, element by element.
void loadStraddling(TileAccess& access, SmallVectorImpl<Value>& loaded, Value pad,
                    AccessHints hints) {
  ThreadLowering& t = access.t;
  Words words(t, access.element, access.chunk);
  auto lines = access.lines();
  SmallVector<Value> whole = words.of(loaded);
  auto tail =
      scf::IfOp::create(t.b, t.loc, ValueRange(whole).getTypes(), access.holdsStraddle(lines[0]),
                        /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(t.b);
    t.b.setInsertionPointToStart(tail.elseBlock());
    scf::YieldOp::create(t.b, t.loc, whole);
    t.b.setInsertionPointToStart(tail.thenBlock());
    for (ArrayRef<int64_t> line : lines) {
      SmallVector<Value> exact;
      for (int64_t i = 0; i < access.chunk; ++i) {
        if (access.straddleKnows(i) == TileAccess::Inside::no)
          exact.push_back(pad);
        else
          llvm::append_range(
              exact, loadElements(t, access.straddlePointer(line[0], i), access.element, 1,
                                  t.both(access.lineInside(line[0]), access.straddleHas(i)), {pad},
                                  hints));
      }
      SmallVector<Value> chunk = words.of(exact);
      for (int64_t reg : line) {
        Value here = access.straddles(reg);
        for (auto [i, word] : llvm::enumerate(chunk)) {
          Value& target = whole[reg / words.perWord + i];
          target = arith::SelectOp::create(t.b, t.loc, here, word, target);
        }
      }
    }
    scf::YieldOp::create(t.b, t.loc, whole);
  }
  loaded = words.elements(tail.getResults());
}

// Stores elements, or adds them to memory.
struct Writing {
  AccessHints hints;
  bool adds;

  void operator()(ThreadLowering& t, Value pointer, ArrayRef<Value> elements,
                  Value predicate) const {
    if (adds)
      addElements(t, pointer, elements, predicate, hints.policy);
    else
      storeElements(t, pointer, elements, predicate, hints);
  }
};

void storeStraddling(TileAccess& access, ArrayRef<Value> elements, Value owner,
                     const Writing& write) {
  ThreadLowering& t = access.t;
  auto lines = access.lines();
  auto tail = scf::IfOp::create(t.b, t.loc, t.both(owner, access.holdsStraddle(lines[0])),
                                /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(t.b);
  t.b.setInsertionPointToStart(tail.thenBlock());
  for (ArrayRef<int64_t> line : lines) {
    Value chunk;
    for (int64_t reg : line) {
      Value candidate = t.pack(elements.slice(reg, access.chunk));
      chunk =
          chunk
              ? Value(arith::SelectOp::create(t.b, t.loc, access.straddles(reg), candidate, chunk))
              : candidate;
    }
    for (int64_t i = 0; i < access.chunk && access.straddleKnows(i) != TileAccess::Inside::no; ++i)
      write(t, access.straddlePointer(line[0], i), {t.extract(chunk, i)},
            t.both(access.lineInside(line[0]), access.straddleHas(i)));
  }
}

// Loads the chunks in which rows begin (tile_access.h, case 5) into `loaded`, element by element.
void loadBegin(TileAccess& access, SmallVectorImpl<Value>& loaded, Value pad, AccessHints hints) {
  ThreadLowering& t = access.t;
  Words words(t, access.element, access.chunk);
  const SmallVector<SmallVector<int64_t>> lines = access.firstChunks();
  SmallVector<Value> whole;
  for (ArrayRef<int64_t> first : lines)
    llvm::append_range(whole, words.of(ArrayRef(loaded).slice(first[0], access.chunk)));
  auto begins = scf::IfOp::create(t.b, t.loc, ValueRange(whole).getTypes(), access.holdsBegin(),
                                  /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(t.b);
    t.b.setInsertionPointToStart(begins.elseBlock());
    scf::YieldOp::create(t.b, t.loc, whole);
    t.b.setInsertionPointToStart(begins.thenBlock());
    SmallVector<Value> exact;
    for (ArrayRef<int64_t> first : lines)
      for (int64_t i = 0; i < access.chunk; ++i)
        llvm::append_range(
            exact, loadElements(t, access.pointer(first[0], i), access.element, 1,
                                t.both(access.firstLineInside(first[0]), access.hasBegun(i)), {pad},
                                hints));
    scf::YieldOp::create(t.b, t.loc, words.of(exact));
  }
  SmallVector<Value> elements = words.elements(begins.getResults());
  for (auto [n, first] : llvm::enumerate(lines))
    for (int64_t reg : first)
      llvm::copy(ArrayRef(elements).slice(n * access.chunk, access.chunk), loaded.begin() + reg);
}

void storeBegin(TileAccess& access, ArrayRef<Value> elements, Value owner, const Writing& write) {
  ThreadLowering& t = access.t;
  const SmallVector<SmallVector<int64_t>> lines = access.firstChunks();
  auto begins =
      scf::IfOp::create(t.b, t.loc, t.both(owner, access.holdsBegin()), /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(t.b);
  t.b.setInsertionPointToStart(begins.thenBlock());
  for (ArrayRef<int64_t> line : lines)
    for (int64_t first = line[0], i = 0; i < access.chunk; ++i)
      write(t, access.pointer(first, i), {elements[first + i]},
            t.both(access.firstLineInside(first), access.hasBegun(i)));
}

void storeTile(TileAccess& access, ArrayRef<Value> elements, const Writing& write) {
  ThreadLowering& t = access.t;
  Value owner = t.ownerPredicate(*access.layout);
  for (int64_t reg = 0; reg < access.registers(); reg += access.chunk)
    write(t, access.pointer(reg), elements.slice(reg, access.chunk),
          t.both(owner, access.inside(reg)));
  if (access.mayBeginInside()) storeBegin(access, elements, owner, write);
  if (access.mayStraddle()) storeStraddling(access, elements, owner, write);
}

// Loads a tile of an aligned row with the alignment offset of another row (isShiftOfAlignedRow). A
// thread's group of contiguous elements begins inside a vector, at the same place in all threads.
// The thread loads the vectors that contain the group, as 32-bit words, and shifts the words. It
// loads the elements after the row's last whole vector one by one, to read nothing outside the row.
class ShiftedLoad {
 public:
  ShiftedLoad(ThreadLowering& t, tile::LoadTileOp op, TileAccess& access, AccessHints hints)
      : t(t),
        op(op),
        access(access),
        hints(hints),
        vector(tile::kVectorBytes / access.bytes()),
        group(access.layout->width),
        size(access.view.getShape().back()),
        whole(size / vector * vector) {}

  // Returns true if isShiftOfAlignedRow holds and each thread's groups are whole vectors long.
  bool isPossible() const {
    return isShiftOfAlignedRow(op) && access.layout->disjoint && group % vector == 0;
  }

  SmallVector<Value> load() {
    Value offset = t.scalar(op.getAlignmentOffset());
    back = arith::AndIOp::create(t.b, t.loc, minus(t.constant(0), offset), t.constant(vector - 1));
    Value tile =
        arith::TruncIOp::create(t.b, t.loc, t.b.getI32Type(), t.scalar(op.getIndices().back()));
    first = minus(arith::MulIOp::create(t.b, t.loc, tile, t.constant(op.getTileShape().back())),
                  plus(offset, back));
    SmallVector<Value> words;
    for (int64_t reg = 0; reg < access.registers(); reg += group) loadGroup(reg, words);
    if (size > whole) words = withRest(words);
    SmallVector<Value> elements;
    const size_t perGroup = words.size() * group / access.registers();
    for (size_t i = 0; i < words.size(); i += perGroup)
      shift(ArrayRef(words).slice(i, perGroup), elements);
    return elements;
  }

 private:
  static constexpr int64_t kWords = tile::kVectorBytes / kWordBytes;  // 4-byte words per vector

  int64_t vectors() const { return group / vector + 1; }  // vectors that contain a group
  Value plus(Value a, Value c) { return arith::AddIOp::create(t.b, t.loc, a, c); }
  Value minus(Value a, Value c) { return arith::SubIOp::create(t.b, t.loc, a, c); }
  Value compare(arith::CmpIPredicate predicate, Value a, int64_t c) {
    return arith::CmpIOp::create(t.b, t.loc, predicate, a, t.constant(c));
  }
  // Returns the column, in the row, where the first vector with elements of the group begins.
  Value columnOf(int64_t reg) {
    auto [base, offset] = t.coordinate(*access.layout, reg, access.layout->map.rank() - 1);
    return plus(plus(base, t.constant(offset)), first);
  }
  Value moved(Value pointer, Value bytes) {
    return LLVM::GEPOp::create(t.b, t.loc, pointer.getType(), t.b.getI8Type(), pointer,
                               ArrayRef<LLVM::GEPArg>{bytes});
  }

  void loadGroup(int64_t reg, SmallVectorImpl<Value>& words) {
    Value bytesBack = arith::MulIOp::create(t.b, t.loc, back, t.constant(-access.bytes()));
    Value pointer = moved(access.pointer(reg), bytesBack), column = columnOf(reg);
    const SmallVector<Value> zeros(vector, t.zero(access.element));
    for (int64_t i = 0; i < vectors(); ++i) {
      // The comparison is unsigned, so it also rejects columns before the row.
      Value inside =
          compare(arith::CmpIPredicate::ule, plus(column, t.constant(i * vector)), whole - vector);
      if (i + 1 == vectors()) inside = t.both(inside, compare(arith::CmpIPredicate::ne, back, 0));
      appendWords(
          t,
          loadElements(t, moved(pointer, t.constant(i * tile::kVectorBytes)), access.element,
                       vector, t.both(access.uniform, inside), zeros, hints),
          words);
    }
  }

  // Returns the words, including the elements after the row's last whole vector. Only threads that
  // need these elements branch to load them.
  SmallVector<Value> withRest(SmallVector<Value> words) {
    Value any;
    for (int64_t reg = 0; reg < access.registers(); reg += group) {
      Value here = compare(arith::CmpIPredicate::ult, minus(t.constant(whole), columnOf(reg)),
                           vectors() * vector);
      any = any ? Value(arith::OrIOp::create(t.b, t.loc, any, here)) : here;
    }
    auto branch = scf::IfOp::create(t.b, t.loc, ValueRange(words).getTypes(),
                                    t.both(access.uniform, any), /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(t.b);
    t.b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(t.b, t.loc, words);
    t.b.setInsertionPointToStart(branch.thenBlock());
    Value ahead = minus(t.constant(whole), plus(columnOf(0), back));
    Value pointer = moved(access.pointer(0),
                          arith::MulIOp::create(t.b, t.loc, ahead, t.constant(access.bytes())));
    SmallVector<Value> rest(vector, t.zero(access.element)), restWords;
    for (int64_t i = 0; i < size - whole; ++i)
      rest[i] = loadElements(t, moved(pointer, t.constant(i * access.bytes())), access.element, 1,
                             {}, {}, hints)[0];
    appendWords(t, rest, restWords);
    size_t word = 0;
    for (int64_t reg = 0; reg < access.registers(); reg += group)
      for (int64_t i = 0; i < vectors(); ++i) {
        Value here =
            compare(arith::CmpIPredicate::eq, plus(columnOf(reg), t.constant(i * vector)), whole);
        for (Value with : restWords) {
          words[word] = arith::SelectOp::create(t.b, t.loc, here, with, words[word]);
          ++word;
        }
      }
    scf::YieldOp::create(t.b, t.loc, words);
    return SmallVector<Value>(branch.getResults());
  }

  // Appends a group's elements. `words` begin `back` elements before the group.
  void shift(ArrayRef<Value> words, SmallVectorImpl<Value>& elements) {
    Value bytes = arith::MulIOp::create(t.b, t.loc, back, t.constant(access.bytes()));
    appendElements(t,
                   shiftWords(t, words, bytes, access.bytes(), kWords / 2, words.size() - kWords),
                   access.element, elements);
  }

  ThreadLowering& t;
  tile::LoadTileOp op;
  TileAccess& access;
  AccessHints hints;
  int64_t vector, group;  // elements
  int64_t size, whole;    // elements of the row; elements in its whole vectors
  Value back;             // elements between the vector boundary before a group and the group
  Value first;            // column where the vector with tile column 0 begins
};

// Returns true if a loop carries the loaded tile to its next iteration.
bool isCarried(tile::LoadTileOp op) {
  return llvm::any_of(op->getUsers(), llvm::IsaPred<scf::YieldOp>);
}

LogicalResult lowerLoadTile(ThreadLowering& t, tile::LoadTileOp op) {
  auto tensor = dyn_cast<RankedTensorType>(op.getType());
  const bool aligns = alignmentOffsetAligns(op.getAlignmentOffset(), op.getView(), op.getIndices(),
                                            op.getTileShape());
  TileAccess access(t, op.getView(), op.getIndices(), op.getTileShape(), tensor,
                    op.getAlignmentOffset(),
                    aligns ? TileAccess::OffsetKind::aligns : TileAccess::OffsetKind::unknown);
  const bool shifts = tensor && isUnalignedArray(op) && UnalignedArray::fits(access);
  // EvictHint::large adds instructions, and these limit loads that are narrower than a vector.
  const bool whole = shifts || access.chunk * access.bytes() == tile::kVectorBytes;
  const tile::EvictHint evict =
      op.getEvict() == tile::EvictHint::large && !whole ? tile::EvictHint::normal : op.getEvict();
  AccessHints hints{op.getCache(), cachePolicy(t, op.getView(), evict)};
  TypedAttr padAttr = op.getPadAttr();
  Value pad =
      arith::ConstantOp::create(t.b, t.loc, padAttr ? padAttr : t.b.getZeroAttr(access.element));
  if (!tensor) {
    t.define(op, Pieces(loadScalar(access, pad, hints)));
    return success();
  }
  if (ShiftedLoad shifted(t, op, access, hints); shifted.isPossible()) {
    t.defineElements(op, shifted.load());
    return success();
  }
  if (shifts) {
    UnalignedArray array(t, access, op.getView(), op.getIndices()[0], op.getTileShape()[0],
                         op.getAlignmentOffset());
    t.defineElements(op, array.load(pad, hints));
    return success();
  }
  // ptxas moves a loaded word that is equal in all lanes to a uniform register at once, and thus
  // waits for the load before its use. A pad that is not known to be uniform prevents this.
  if (isCarried(op) && access.chunk == 1 && access.element.isF32() &&
      matchPattern(pad, m_PosZeroFloat()))
    pad = t.bitcast(t.opaqueLaneZero(), access.element);
  SmallVector<Value> pads(access.chunk, pad), loaded;
  for (int64_t reg = 0; reg < access.registers(); reg += access.chunk)
    llvm::append_range(loaded, loadElements(t, access.pointer(reg), access.element, access.chunk,
                                            access.inside(reg), pads, hints));
  if (access.mayBeginInside()) loadBegin(access, loaded, pad, hints);
  if (access.mayStraddle()) loadStraddling(access, loaded, pad, hints);
  t.defineElements(op, loaded);
  return success();
}

// The alignment offset may belong to another tensor's row. A uniform branch then tests if it also
// aligns this row. If not, single elements are stored.
LogicalResult lowerStoreTile(ThreadLowering& t, tile::StoreTileOp op) {
  auto tensor = dyn_cast<RankedTensorType>(op.getValue().getType());
  auto accessAs = [&](TileAccess::OffsetKind kind) {
    return TileAccess(t, op.getView(), op.getIndices(), op.getTileShape(), tensor,
                      op.getAlignmentOffset(), kind);
  };
  TileAccess access = accessAs(TileAccess::OffsetKind::aligns);
  const Writing write{{op.getCache(), cachePolicy(t, op.getView(), op.getEvict())}, op.getAdds()};
  SmallVector<Value> elements = t.elements(op.getValue());
  if (!tensor) {
    Value first = t.both(access.uniform, t.threadMaskIsZero(t.numThreads() - 1));
    write(t, globalPointer(t, access.scalarAddress()), elements, first);
    return success();
  }
  if (isUnalignedArray(op) && UnalignedArray::fits(access)) {
    UnalignedArray array(t, access, op.getView(), op.getIndices()[0], op.getTileShape()[0],
                         op.getAlignmentOffset());
    array.store(elements, write.hints);
    return success();
  }
  if (!op.getAlignmentOffset() || access.chunk == 1 ||
      alignmentOffsetAligns(op.getAlignmentOffset(), op.getView(), op.getIndices(),
                            op.getTileShape()))
    return storeTile(access, elements, write), success();
  auto branch = scf::IfOp::create(t.b, t.loc, access.isAligned(), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(t.b);
  t.b.setInsertionPointToStart(branch.thenBlock());
  storeTile(access, elements, write);
  t.b.setInsertionPointToStart(branch.elseBlock());
  TileAccess single = accessAs(TileAccess::OffsetKind::unknown);
  storeTile(single, elements, write);
  return success();
}

// Issues one prefetch per line of 128 bytes, from every eighth lane of a layout in which each lane
// holds 16 bytes.
LogicalResult lowerPrefetchTile(ThreadLowering& t, tile::PrefetchTileOp op) {
  constexpr int64_t kLanesPerLine = 8;
  SmallVector<int64_t> shape = tile::resultShape(op.getTileShape());
  tile::ViewType view = op.getView().getType();
  int64_t vector = 16 / view.getElementBytes();
  ClusterCut cut{t.options.num_ctas, {}};
  for (int dim = static_cast<int>(shape.size()) - 1; dim >= 0; --dim) cut.dims.push_back(dim);
  LinearLayout map = LinearLayout::blocked(LinearLayout::Shape(shape.begin(), shape.end()), vector,
                                           32, t.numWarps(), cut);
  auto type = RankedTensorType::get(shape, view.getElementType(), layoutAttr(op.getContext(), map));
  TileAccess access(t, op.getView(), op.getIndices(), op.getTileShape(), type);
  Value owner = t.both(t.ownerPredicate(*access.layout), t.threadMaskIsZero(kLanesPerLine - 1));
  for (int64_t reg = 0; reg < access.registers();
       reg += std::max<int64_t>(access.chunk, access.layout->width))
    prefetchLine(t, access.pointer(reg), t.both(owner, access.inside(reg)));
  return success();
}

LogicalResult lowerSlice(ThreadLowering& t, tile::SliceOp op) {
  Pieces slots = t.pieces(op.getView());
  const tile::ViewType view = op.getView().getType();
  const size_t axis = op.getAxis();
  const auto [begin, end] = sliceBounds(t, op);
  Value step = arith::MulIOp::create(t.b, t.loc, slots[1 + view.getRank() + axis],
                                     t.constant(view.getElementBytes(), 64));
  slots[0] =
      arith::AddIOp::create(t.b, t.loc, slots[0], arith::MulIOp::create(t.b, t.loc, begin, step));
  slots[1 + axis] = arith::SubIOp::create(t.b, t.loc, end, begin);
  if (const int64_t step = tile::stepOf(op); step != 1) {
    Value most = arith::AddIOp::create(t.b, t.loc, slots[1 + axis], t.constant(step - 1, 64));
    slots[1 + axis] = arith::DivUIOp::create(t.b, t.loc, most, t.constant(step, 64));
    Value& stride = slots[1 + view.getRank() + axis];
    stride = arith::MulIOp::create(t.b, t.loc, stride, t.constant(step, 64));
  }
  t.define(op, slots);
  return success();
}

LogicalResult lowerAlignmentOffset(ThreadLowering& t, tile::AlignmentOffsetOp op) {
  const Pieces& slots = t.pieces(op.getView());
  tile::ViewType view = op.getView().getType();
  Value elements = t.constant(0, 64);
  for (auto [axis, index] : llvm::enumerate(op.getIndices())) {
    Value step =
        arith::MulIOp::create(t.b, t.loc, t.scalar(index), slots[1 + view.getRank() + axis]);
    elements = arith::AddIOp::create(t.b, t.loc, elements, step);
  }
  Value bytes = arith::MulIOp::create(t.b, t.loc, elements, t.constant(view.getElementBytes(), 64));
  Value address = arith::AddIOp::create(t.b, t.loc, slots[0], bytes);
  Value low = arith::TruncIOp::create(t.b, t.loc, t.b.getI32Type(), address);
  low = arith::AndIOp::create(t.b, t.loc, low, t.constant(tile::kVectorBytes - 1));
  t.define(op,
           {Value(arith::DivUIOp::create(t.b, t.loc, low, t.constant(view.getElementBytes())))});
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
  table.add<tile::PrefetchTileOp, lowerPrefetchTile>();
  table.add<tile::ViewPtrOp, lowerViewPtr>();
  table.add<tile::SliceOp, lowerSlice>();
  table.add<tile::AlignmentOffsetOp, lowerAlignmentOffset>();
}

}  // namespace ligerdsl::compiler::nvptx
