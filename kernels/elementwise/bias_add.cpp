// y = round_T(x + b) in every row. Arithmetic in f32, T = type.
//
// Bytes, s = sizeof(T): 2 n F s. A program has one tile and no loop.
#include "kernels/elementwise/bias_add.h"

#include "kernels/core/program_tile.h"

namespace ligerdsl::kernels {

void bias_add_forward(KernelBuilder& k, const BiasAddMeta& m) {
  View y = k.view("y", m.type, {dyn, m.cols});
  View x = k.view("x", m.type, {dyn, m.cols});
  View bias = k.view("bias", m.bias_type, {m.cols});

  const ProgramTile at(k, x, m);
  Tile b = bias.partition({m.block}).load({at.column()}).to(f32).expand_dims(0);
  at.store(y, at.load(x) + b);
}

}  // namespace ligerdsl::kernels
