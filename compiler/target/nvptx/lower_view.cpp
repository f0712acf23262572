// load_tile, store_tile, prefetch_tile and view_ptr. Where and under which masks memory is touched is TileAccess's
// business.
#include "compiler/passes/layout_attr.h"
#include "compiler/target/nvptx/tile_access.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

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
    Value first = t.both(access.uniform, t.threadMaskIsZero(t.numThreads() - 1));
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

// One instruction per line of 128 bytes: every eighth lane of a layout in which lanes follow each other by 16 bytes.
LogicalResult lowerPrefetchTile(ThreadLowering& t, tile::PrefetchTileOp op) {
  constexpr int64_t kLanesPerLine = 8;
  SmallVector<int64_t> shape = tile::resultShape(op.getTileShape());
  tile::ViewType view = op.getView().getType();
  int64_t vector = 16 / view.getElementBytes();
  ClusterCut cut{t.options.num_ctas, {}};
  for (int dim = static_cast<int>(shape.size()) - 1; dim >= 0; --dim) cut.dims.push_back(dim);
  LinearLayout map =
      LinearLayout::blocked(LinearLayout::Shape(shape.begin(), shape.end()), vector, 32, t.numWarps(), cut);
  auto type = RankedTensorType::get(shape, view.getElementType(), layoutAttr(op.getContext(), map));
  TileAccess access(t, op.getView(), op.getIndices(), op.getTileShape(), type);
  Value owner = t.both(t.ownerPredicate(*access.layout), t.threadMaskIsZero(kLanesPerLine - 1));
  for (int64_t reg = 0; reg < access.registers(); reg += std::max<int64_t>(access.chunk, access.layout->width))
    prefetchLine(t, access.pointer(reg), t.both(owner, access.inside(reg)));
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
}

}  // namespace ligerdsl::compiler::nvptx
