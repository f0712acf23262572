#include "compiler/pipeline/tensor_store.h"

#include "compiler/analysis/layout_preference.h"
#include "compiler/analysis/memory_access.h"
#include "compiler/analysis/sliced_view.h"
#include "compiler/dialect/layout_attr.h"
#include "compiler/dialect/tgpu.h"
#include "compiler/layout/swizzle.h"
#include "compiler/remarks.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

int64_t elementBytes(RankedTensorType type) {
  return type.getElementTypeBitWidth() / 8;
}

// Returns an op that may access memory that the store writes, or null. TMA copies are not ordered
// with such accesses.
Operation* rivalOf(tile::StoreTileOp store) {
  const MemoryAccess own = memoryAccesses(store)->front();
  Operation* rival = nullptr;
  store->getParentOfType<func::FuncOp>().walk([&](Operation* op) {
    const FailureOr<MemoryAccesses> accesses = op == store ? MemoryAccesses() : memoryAccesses(op);
    const bool meets = failed(accesses) || llvm::any_of(*accesses, [&](const MemoryAccess& access) {
                         return !access.shared && mayOverlap(own, access);
                       });
    if (!meets) return WalkResult::advance();
    rival = op;
    return WalkResult::interrupt();
  });
  return rival;
}

// Returns the buffer of type `type` that an earlier TMA store in the same block uses. Returns null
// if there is none, or outside loops. The first store to the buffer has already waited until the
// previous iteration's writes are complete. Waiting for a shared buffer costs less than a second
// buffer, which would leave less shared memory for the ring's stages.
tgpu::LocalAllocOp bufferBefore(tile::StoreTileOp store, tgpu::MemDescType type) {
  if (!store->getParentOfType<scf::ForOp>()) return {};
  for (Operation* op = store->getPrevNode(); op; op = op->getPrevNode())
    if (auto other = dyn_cast<tgpu::TensorStoreOp>(op);
        other && other.getBuffer().getType() == type)
      return other.getBuffer().getDefiningOp<tgpu::LocalAllocOp>();
  return {};
}

// Returns the number of rows per CTA if CTA r holds the r-th such group of rows. Returns nothing if
// CTAs split columns, share rows or hold them in another order.
std::optional<int64_t> rowsOfCta(const LinearLayout& layout) {
  const std::optional<LinearLayout> part = layout.partOfCta();
  if (!part) return std::nullopt;
  const int64_t rows = part->shape()[0];
  int64_t first = rows;
  for (const LinearLayout::Basis& cta : layout.bases(Axis::cta)) {
    if (cta != LinearLayout::Basis{first, 0}) return std::nullopt;
    first *= 2;
  }
  return rows;
}

// Returns the ancestor of `op` in the function's outermost block, outside of all loops.
Operation* outermost(Operation* op) {
  while (!isa<func::FuncOp>(op->getParentOp())) op = op->getParentOp();
  return op;
}

}  // namespace

std::string reasonNoTensorStore(tile::StoreTileOp store, Value source) {
  auto type = dyn_cast<RankedTensorType>(store.getValue().getType());
  if (!type || type.getRank() != 2)
    return "the tile has " + std::to_string(type ? type.getRank() : 0) +
           " dimensions, and a TMA store needs 2";
  if (!type.getElementType().isF16() && !type.getElementType().isBF16() &&
      !type.getElementType().isF32()) {
    std::string element;
    llvm::raw_string_ostream(element) << type.getElementType();
    return "its elements are " + element + ", and a TMA store needs f16, bf16 or f32";
  }
  if (!llvm::all_of(type.getShape(), [](int64_t size) { return llvm::isPowerOf2_64(size); }))
    return "its sizes " + std::to_string(type.getDimSize(0)) + " and " +
           std::to_string(type.getDimSize(1)) + " must be powers of two";
  if (store.getAlignmentOffset()) return "it has an alignment offset";
  const std::optional<int64_t> rows = rowsOfCta(layoutOf(source));
  if (!rows) return "the CTAs of the cluster do not hold consecutive rows of the tile";
  const int64_t vector = tile::kVectorBytes / elementBytes(type);
  const AccessShape access = accessShape(store);
  if (access.fastDim != 1 || access.vector < vector) return whyNarrow(store);
  if (std::string why = whyNoTensorTiles(store.getView(), store.getTileShape(), *rows);
      !why.empty())
    return why;
  if (*rows < Swizzle::kPeriod)
    return "each CTA has " + std::to_string(*rows) + " rows of it, and a TMA store needs " +
           std::to_string(Swizzle::kPeriod) + " or more";
  const int64_t rowBytes = type.getDimSize(1) * elementBytes(type);
  if (store.getTileShape().back() != type.getDimSize(1) || !Swizzle::widest(*rows, rowBytes))
    return "its rows have " + std::to_string(rowBytes) +
           " bytes, and a TMA store needs 32 or more; use wider tiles";
  if (Operation* rival = rivalOf(store))
    return "it may use the same memory as the access at " + placeOf(rival) +
           ", which would not wait for it";
  return "";
}

void storeByTensorCopies(tile::StoreTileOp store, Value source, const Segments& segments) {
  auto whole = cast<RankedTensorType>(source.getType());
  const Location loc = store.getLoc();
  const int64_t columns = whole.getDimSize(1) / segments.parts, rows = *rowsOfCta(segments.layout),
                swizzle = Swizzle::widest(rows, columns * elementBytes(whole));
  const RankedTensorType type =
      withLayout(RankedTensorType::get({whole.getDimSize(0), columns}, whole.getElementType()),
                 segments.layout);
  Operation* around = outermost(store);
  OpBuilder before(around), here(store),
      after(around->getBlock(), std::next(around->getIterator()));
  const auto bufferType = tgpu::MemDescType::get(store.getContext(), {rows, columns},
                                                 type.getElementType(), 0, swizzle);
  tgpu::LocalAllocOp buffer = bufferBefore(store, bufferType);
  const bool isFirst = !buffer;
  if (isFirst) buffer = tgpu::LocalAllocOp::create(before, loc, bufferType, IntegerAttr());
  SmallVector<int64_t> shape(store.getTileShape());
  shape.back() = columns;
  for (int64_t part = 0; part < segments.parts; ++part) {
    SmallVector<Value> indices(store.getIndices());
    const auto number = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(here, loc,
                                       here.getIntegerAttr(indices.back().getType(), value));
    };
    Value tile = source;
    if (segments.parts > 1) {
      indices.back() = arith::MulIOp::create(here, loc, indices.back(), number(segments.parts));
      indices.back() = arith::AddIOp::create(here, loc, indices.back(), number(part));
      tile = tgpu::SegmentOp::create(here, loc, type, source, ArrayRef<int64_t>{0, part * columns});
    }
    // The first segment waits for the previous iteration's writes, because its tile may overlap in
    // memory with the current one.
    tgpu::TensorWaitOp::create(here, loc, buffer, /*written=*/isFirst && part == 0);
    tgpu::LocalStoreOp::create(here, loc, tile, buffer);
    tgpu::TensorStoreOp::create(here, loc, buffer, store.getView(), indices, shape,
                                store.getEvict(), store.getAdds());
  }
  if (isFirst) tgpu::TensorWaitOp::create(after, loc, buffer, /*written=*/false);
  store.erase();
}

}  // namespace ligerdsl::compiler
