// out_i = round(a_i + b_i); 3 n elements are loaded or stored. A program has one block of a flat
// array and no loop. By default, a GPU thread has one 16-byte vector of each argument.
#include "kernels/elementwise/vector_add.h"

namespace ligerdsl::kernels {

void vector_add(KernelBuilder& k, const VectorAddMeta& m) {
  View out = k.view("out", m.type, {dyn});
  View a = k.view("a", m.type, {dyn});
  View b = k.view("b", m.type, {dyn});

  Scalar i = k.program_id(0);
  Tile sum = a.partition({m.block}).load({i}).to(f32) + b.partition({m.block}).load({i}).to(f32);
  out.partition({m.block}).store({i}, sum.to(m.type));
}

}  // namespace ligerdsl::kernels
