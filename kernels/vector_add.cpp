// out_i = round(a_i + b_i); 3 n elements move. Streams a flat array: one 16-byte vector per stream and thread, no loop.
#include "kernels/vector_add.h"

#include "kernels/record.h"
#include "kernels/tile_shape.h"

namespace ligerdsl::kernels {

void vector_add(KernelBuilder& k, const VectorAddMeta& m) {
  View out = k.view("out", m.type, {dyn});
  View a = k.view("a", m.type, {dyn});
  View b = k.view("b", m.type, {dyn});

  Scalar i = k.program_id(0);
  Tile sum = a.partition({m.block}).load({i}).to(f32) + b.partition({m.block}).load({i}).to(f32);
  out.partition({m.block}).store({i}, sum.to(m.type));
}

Operation vector_add(const Machine& machine, DType type) {
  const TileShape tile = elementwise_tile(machine, type, kResidentWidth);
  const VectorAddMeta meta{.type = type, .block = tile.cols};
  return {.steps = {record_step("vector_add", type, &vector_add, meta,
                                library_launch(ceil_div(Size::rows(), meta.block), tile.num_warps))}};
}

}  // namespace ligerdsl::kernels
