// out = in times factor, rounded once; the factor is one number or one per row. Streams with one vector per thread and
// no loop.
#include "kernels/scale_rows.h"

namespace ligerdsl::kernels {

void scale_rows(KernelBuilder& k, const ScaleRowsMeta& m) {
  View out = k.view("out", m.type, {dyn, m.cols});
  View in = k.view("in", m.type, {dyn, m.cols});
  View factor = k.view("factor", m.factor_type, {dyn});

  Scalar blocks = cdiv(in.dim(1), m.block).to(i32);
  Scalar row = k.program_id(0) / blocks, column = k.program_id(0) % blocks;
  Tile x = in.partition({m.rows, m.block}).load({row, column}).to(f32);
  Tile scaled =
      m.per_row ? x * factor.partition({m.rows}).load({row}).to(f32).expand_dims(1) : x * factor.load({0}).to(f32);
  out.partition({m.rows, m.block}).store({row, column}, scaled.to(m.type));
}

}  // namespace ligerdsl::kernels
