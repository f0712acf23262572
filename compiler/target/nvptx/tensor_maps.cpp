#include "compiler/target/nvptx/tensor_maps.h"

#include "compiler/analysis/shared_buffer.h"
#include "compiler/analysis/sliced_view.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {

size_t slotsOf(Type type) {
  auto view = dyn_cast<tile::ViewType>(type);
  return view ? 1 + 2 * view.getRank() : 1;
}

program::TensorMap tensorMapOf(tgpu::RingFillOp fill, unsigned part) {
  const SlicedView view = slicedView(fill.getViews()[part]);
  const tgpu::MemDescType slot = fill.getRing().getType().part(part);
  program::TensorMap map;
  for (BlockArgument before : view.argument.getOwner()->getArguments().take_front(view.argument.getArgNumber()))
    map.slot += slotsOf(before.getType());
  const Type element = slot.getElementType();
  map.type = element.isF16()    ? DType::f16
             : element.isBF16() ? DType::bf16
             : element.isF32()  ? DType::f32  // rounded to tf32: products alone read what tensor copies bring
                                : DType::i8;   // or codes of fp8
  map.swizzle = slot.getSwizzle();
  for (int64_t size : fill.shapeOf(part)) map.box.push_back(std::max<int64_t>(size, 1));  // 0: squeezed
  map.sliced = view.dim;
  map.box.back() = map.swizzle / sharedElementBytes(slot.getElementType());
  return map;
}

std::vector<program::TensorMap> tensorMapsOf(func::FuncOp kernel) {
  std::vector<program::TensorMap> maps;
  kernel.walk([&](tgpu::RingFillOp fill) {
    if (fill.getRing().getType().getFill() != tgpu::RingFill::tensor) return;
    for (unsigned part = 0; part < fill.getViews().size(); ++part)
      if (program::TensorMap map = tensorMapOf(fill, part); !llvm::is_contained(maps, map)) maps.push_back(map);
  });
  return maps;
}

}  // namespace ligerdsl::compiler::nvptx
