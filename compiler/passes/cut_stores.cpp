// tgpu-cut-stores
//
// An accumulator whose layout is converted for a store in a loop, or for an add to memory, is
// converted in segments of columns, one after the other. A conversion of the whole accumulator
// would leave too little shared memory for the copies of the loop's next iterations.
//
//   1. An accumulator of more than kMostBytes is split into equal segments if each warp holds whole
//      rows. Their number is the smallest power of two for which a segment has at most kMostBytes,
//      and at most kMostAccesses per thread. It is smaller if the columns are not divisible.
//   2. Each segment is converted and stored before the next one, so all segments use one buffer.
//   3. An accumulator of more than kMostBytes that cannot be split is added to memory in its own
//      layout.
//   4. A store with tensor_copies uses TMA copies if possible (pipeline/tensor_store.h), from the
//      accumulator's own layout.
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/layout/dot_layout.h"
#include "compiler/passes/passes.h"
#include "compiler/pipeline/tensor_store.h"
#include "compiler/remarks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace ligerdsl::compiler {

#define GEN_PASS_DEF_TGPUCUTSTORESPASS
#include "compiler/passes/Passes.h.inc"

namespace {

constexpr int64_t kMostBytes = 32 * 1024, kVectorBytes = tile::kVectorBytes;
constexpr int64_t kMostAccesses = 32;  // accesses per thread and segment
constexpr int64_t kColumns = 16;       // divides a segment's columns: two fragments

// Returns the layout of a segment with this number of columns, or nothing if its threads would hold
// other rows than in the accumulator.
std::optional<LinearLayout> segmentOf(const LinearLayout& acc, int64_t columns) {
  DotShape shape = shapeOf(acc, mmaK(2));
  if (accumulatorLayout(shape) != acc || shape.part == WarpPart::square) return std::nullopt;
  shape.n = columns;
  const LinearLayout part = accumulatorLayout(shape);
  const bool same = part.bases(Axis::lane) == acc.bases(Axis::lane) &&
                    part.bases(Axis::warp) == acc.bases(Axis::warp);
  return same && shapeOf(part, mmaK(2)).part == shape.part ? std::optional(part) : std::nullopt;
}

tgpu::ConvertLayoutOp conversionOf(tile::StoreTileOp store) {
  auto conversion = store.getValue().getDefiningOp<tgpu::ConvertLayoutOp>();
  return conversion && conversion->hasOneUse() ? conversion : tgpu::ConvertLayoutOp();
}

int64_t bytesOf(RankedTensorType whole) {
  return whole.getNumElements() * whole.getElementTypeBitWidth() / 8 / layoutOf(whole).ctas();
}

int64_t partsOf(RankedTensorType whole, int64_t mostBytes = kMostBytes) {
  int64_t parts = 1;
  while (bytesOf(whole) / parts > mostBytes && whole.getDimSize(1) % (2 * parts * kColumns) == 0)
    parts *= 2;
  return parts;
}

// Replaces the store by TMA copies if possible. Returns true if it did.
bool madeByTensorCopies(tile::StoreTileOp store, bool hasThem) {
  tgpu::ConvertLayoutOp conversion = conversionOf(store);
  Value source = conversion ? conversion.getSource() : store.getValue();
  std::string why = hasThem ? reasonNoTensorStore(store, source)
                            : "the target has no TMA copies (sm_90 and later have)";
  if (why.empty()) {
    const LinearLayout acc = layoutOf(source);
    const auto whole = cast<RankedTensorType>(source.getType());
    const int64_t parts = partsOf(whole);
    if (const auto segment =
            parts == 1 ? std::optional(acc) : segmentOf(acc, whole.getDimSize(1) / parts)) {
      if (store.getCache() == tile::CacheHint::streaming)
        missed(store, RemarkId::store_hint_ignored)
            << "cache = streaming: not done: TMA copies have no such hint; use evict = first";
      storeByTensorCopies(store, source, {parts, *segment});
      if (conversion) conversion.erase();
      return true;
    }
    why = "it has " + std::to_string(bytesOf(whole)) + " bytes per CTA, more than " +
          std::to_string(kMostBytes) +
          ", and its layout cannot be split by columns; use smaller tiles";
  }
  missed(store, RemarkId::no_tensor_store) << "tensor_copies = true: not done: " << why;
  store.setTensorCopies(false);
  return false;
}

bool cut(tile::StoreTileOp store, tgpu::ConvertLayoutOp conversion) {
  auto whole = cast<RankedTensorType>(conversion.getType());
  if (store.getAlignmentOffset() || whole.getRank() != 2 ||
      store.getTileShape().back() != whole.getDimSize(1))
    return false;
  const int64_t bytes = whole.getElementTypeBitWidth() / 8;
  if (partsOf(whole) == 1) return false;
  const LinearLayout from = layoutOf(conversion.getSource()), to = layoutOf(whole);
  // Limit a thread's accesses per segment, because each needs an address and a mask in registers.
  const int64_t threadsOfCta = to.lanes() * to.warps(),
                parts = partsOf(whole, std::min(kMostBytes, threadsOfCta * kMostAccesses *
                                                                to.contiguous(1) * bytes));
  const int64_t columns = whole.getDimSize(1) / parts,
                vector = std::min(kVectorBytes / bytes, to.contiguous(1));
  const std::optional<LinearLayout> segment = segmentOf(from, columns);
  const int64_t threads = to.lanes() * to.warps() * to.ctas();
  if (!segment || whole.getDimSize(0) * columns % (threads * vector) != 0) return false;
  const RankedTensorType type =
      RankedTensorType::get({whole.getDimSize(0), columns}, whole.getElementType());
  const LinearLayout stored =
      LinearLayout::blocked(segment->shape(), vector, to.lanes(), to.warps(), {to.ctas(), {0}});
  OpBuilder builder(store);
  const Location loc = store.getLoc();
  SmallVector<int64_t> shape(store.getTileShape());
  shape.back() = columns;
  for (int64_t part = 0; part < parts; ++part) {
    SmallVector<Value> indices(store.getIndices());
    Value times = arith::ConstantOp::create(
        builder, loc, builder.getIntegerAttr(indices.back().getType(), parts));
    Value plus = arith::ConstantOp::create(builder, loc,
                                           builder.getIntegerAttr(indices.back().getType(), part));
    indices.back() = arith::MulIOp::create(builder, loc, indices.back(), times);
    indices.back() = arith::AddIOp::create(builder, loc, indices.back(), plus);
    Value tile =
        tgpu::SegmentOp::create(builder, loc, withLayout(type, *segment), conversion.getSource(),
                                ArrayRef<int64_t>{0, part * columns});
    tile = tgpu::ConvertLayoutOp::create(builder, loc, withLayout(type, stored), tile);
    auto one = cast<tile::StoreTileOp>(builder.clone(*store));
    one.getValueMutable().assign(tile);
    one.getIndicesMutable().assign(indices);
    one.setTileShape(shape);
  }
  store.erase();
  conversion.erase();
  return true;
}

bool isLarge(RankedTensorType type) {
  return type.getNumElements() * type.getElementTypeBitWidth() / 8 > kMostBytes;
}

class TgpuCutStoresPass : public impl::TgpuCutStoresPassBase<TgpuCutStoresPass> {
 public:
  using TgpuCutStoresPassBase::TgpuCutStoresPassBase;

  void runOnOperation() override {
    SmallVector<tile::StoreTileOp> stores;
    getOperation().walk([&](tile::StoreTileOp store) {
      const bool isTile = isa<RankedTensorType>(store.getValue().getType());
      const bool cuts = isTile && (store->getParentOfType<scf::ForOp>() || store.getAdds());
      if (cuts || store.getTensorCopies()) stores.push_back(store);
    });
    for (tile::StoreTileOp store : stores) {
      if (store.getTensorCopies() && madeByTensorCopies(store, tensorStores)) continue;
      if (tgpu::ConvertLayoutOp conversion = conversionOf(store)) {
        if (cut(store, conversion) || !store.getAdds()) continue;
        if (!isLarge(cast<RankedTensorType>(conversion.getType()))) continue;
        store.getValueMutable().assign(conversion.getSource());
        conversion.erase();
      }
    }
  }
};

}  // namespace

}  // namespace ligerdsl::compiler
