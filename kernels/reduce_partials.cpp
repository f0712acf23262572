// A program owns `cols` columns. Lane r of its `rows` lanes adds partials r, r + rows, ... in order; the lanes are
// added last.
#include "kernels/reduce_partials.h"

#include "kernels/record.h"

namespace ligerdsl::kernels {

void reduce_partials(KernelBuilder& k, const ReducePartialsMeta& m) {
  View out = k.view(m.out, m.type, {m.n});
  View partials = k.view(m.partials, m.from, {dyn, m.n});
  View scale;
  if (m.scaled) scale = k.view("scale", f32, {dyn});

  Scalar column = k.program_id(0);
  auto tiles = partials.partition({m.rows, m.cols});
  auto [lanes] =
      k.for_range(0, cdiv(partials.dim(0), m.rows), 1, carry(k.zeros({m.rows, m.cols}, f32)), [&](Scalar i, Tile acc) {
        Tile added = tiles.load({i, column}).to(f32);
        if (m.scaled) {
          const Tile of_row = scale.partition({m.rows}).load({i}).expand_dims(1);
          added = where(of_row == 0.0f, 0.0f, added * of_row);
        }
        return carry(acc + added);
      });
  Tile total = sum(lanes, 0);
  auto target = out.partition({m.cols});
  if (m.accumulate) total = total + target.load({column});
  target.store({column}, total.to(m.type));
}

// On a GPU 16 lanes of four columns and 16 groups of rows; a program per SM leaves so many partials that each
// thread has all of its own under way at once, and the loop turns once: 132 of them are 9 rows of a group, 9 * 16 =
// 144.
TileShape partials_tile(const Machine& machine) {
  if (!machine.is_gpu()) return {.rows = 4, .cols = 256, .num_warps = 8};
  const int64_t groups = std::clamp<int64_t>(ceil_div(machine.sms, 16), 1, 9);
  return {.rows = 16 * (groups <= 4 ? tile_width(groups) : groups | 1), .cols = 64, .num_warps = 8};
}

Step reduce_partials(const Machine& machine, const std::string& out, DType type, bool accumulate, int64_t cols,
                     DType from, const std::string& partials, bool scaled) {
  const TileShape tile = partials_tile(machine);
  const ReducePartialsMeta meta{.type = type,
                                .from = from,
                                .out = out,
                                .partials = partials,
                                .accumulate = accumulate,
                                .scaled = scaled,
                                .n = cols,
                                .rows = tile.rows,
                                .cols = tile.cols};
  return record_step("reduce_partials", type, &reduce_partials, meta,
                     library_launch(ceil_div(cols, meta.cols), tile.num_warps));
}

}  // namespace ligerdsl::kernels
