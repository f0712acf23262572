#include "compiler/target/nvptx/tensor_maps.h"

#include "compiler/analysis/shared_buffer.h"
#include "compiler/analysis/sliced_view.h"
#include "compiler/dialect/layout_attr.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {

size_t slotsOf(Type type) {
  auto view = dyn_cast<tile::ViewType>(type);
  return view ? 1 + 2 * view.getRank() : 1;
}

static program::TensorMap mapOf(Value moved, tgpu::MemDescType slot, ArrayRef<int64_t> tileShape) {
  const SlicedView view = slicedView(moved);
  program::TensorMap map;
  for (BlockArgument before :
       view.argument.getOwner()->getArguments().take_front(view.argument.getArgNumber()))
    map.slot += slotsOf(before.getType());
  const Type element = slot.getElementType();
  map.type = element.isF16()    ? DType::f16
             : element.isBF16() ? DType::bf16
             : element.isF32()  ? DType::f32
                                : DType::i8;  // i8, or fp8 codes
  map.swizzle = slot.getSwizzle();
  for (int64_t size : tileShape) map.box.push_back(std::max<int64_t>(size, 1));  // 0 means squeezed
  map.sliced = view.dim;
  map.box.back() = map.swizzle / sharedElementBytes(slot.getElementType());
  return map;
}

// Returns the part of a tile that each CTA copies. `slot` is the shape of the buffer in each CTA.
static CtaCopy ctaCopyOf(Operation* op, ArrayRef<int64_t> slot, ArrayRef<int64_t> tile) {
  const auto ctas = op->getParentOfType<func::FuncOp>()->getAttrOfType<IntegerAttr>(kNumCtasAttr);
  CtaCopy copy;
  copy.columnDim = tile.size() - 1;
  for (copy.rowDim = copy.columnDim - 1; tile[copy.rowDim] == 0;) --copy.rowDim;
  copy.rows = slot[0];
  if (!ctas) return copy;
  copy.ownRows = slot[0] < tile[copy.rowDim], copy.ownColumns = slot[1] < tile[copy.columnDim];
  copy.toAll = !copy.ownRows && !copy.ownColumns;
  if (copy.toAll) copy.rows /= ctas.getInt();
  return copy;
}

CtaCopy ctaCopyOf(tgpu::RingFillOp fill, unsigned part) {
  return ctaCopyOf(fill, fill.getRing().getType().part(part).getShape(), fill.shapeOf(part));
}

CtaCopy ctaCopyOf(tgpu::TensorStoreOp store) {
  return ctaCopyOf(store, store.getBuffer().getType().getShape(), store.getTileShape());
}

program::TensorMap tensorMapOf(tgpu::RingFillOp fill, unsigned part) {
  program::TensorMap map =
      mapOf(fill.getViews()[part], fill.getRing().getType().part(part), fill.shapeOf(part));
  const CtaCopy copy = ctaCopyOf(fill, part);
  map.box[copy.rowDim] = copy.rows;
  return map;
}

program::TensorMap tensorMapOf(tgpu::TensorStoreOp store) {
  program::TensorMap map =
      mapOf(store.getView(), store.getBuffer().getType(), store.getTileShape());
  const CtaCopy copy = ctaCopyOf(store);
  map.box[copy.rowDim] = copy.rows;
  map.stores = true;
  return map;
}

std::vector<program::TensorMap> tensorMapsOf(func::FuncOp kernel) {
  std::vector<program::TensorMap> maps;
  const auto add = [&](const program::TensorMap& map) {
    if (!llvm::is_contained(maps, map)) maps.push_back(map);
  };
  kernel.walk([&](Operation* op) {
    if (auto store = dyn_cast<tgpu::TensorStoreOp>(op)) add(tensorMapOf(store));
    auto fill = dyn_cast<tgpu::RingFillOp>(op);
    if (!fill || fill.getRing().getType().getFill() != tgpu::RingFill::tensor) return;
    for (unsigned part = 0; part < fill.getViews().size(); ++part) add(tensorMapOf(fill, part));
  });
  return maps;
}

}  // namespace ligerdsl::compiler::nvptx
