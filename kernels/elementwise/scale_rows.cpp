// out = round(factor in), with one factor for all rows or one per row. A program has one tile and
// no loop.
#include "kernels/elementwise/scale_rows.h"

#include "kernels/core/program_tile.h"

namespace ligerdsl::kernels {

void scale_rows(KernelBuilder& k, const ScaleRowsMeta& m) {
  View out = k.view("out", m.type, {dyn, m.cols});
  View in = k.view("in", m.type, {dyn, m.cols});
  View factor = k.view("factor", m.factor_type, {dyn});

  const ProgramTile at(k, in, m);
  Tile x = at.load(in);
  Tile scaled = m.per_row ? x * factor.partition({m.rows}).load({at.row()}).to(f32).expand_dims(1)
                          : x * factor.load({0}).to(f32);
  at.store(out, scaled);
}

}  // namespace ligerdsl::kernels
