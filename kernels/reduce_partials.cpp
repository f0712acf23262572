// A program owns `cols` columns. Lane r of its `rows` lanes adds partials r, r + rows, ... in order; the lanes are
// added last.
#include "kernels/reduce_partials.h"

#include "kernels/record.h"

namespace ligerdsl::kernels {

void reduce_partials(KernelBuilder& k, const ReducePartialsMeta& m) {
  View out = k.view(m.out, m.type, {m.n});
  View partials = k.view("partials", m.from, {dyn, m.n});

  Scalar column = k.program_id(0);
  auto tiles = partials.partition({m.rows, m.cols});
  auto [lanes] =
      k.for_range(0, cdiv(partials.dim(0), m.rows), 1, pipelined(2), carry(k.zeros({m.rows, m.cols}, f32)),
                  [&](Scalar i, Tile acc) { return carry(acc + tiles.load({i, column}).to(f32)); });
  Tile total = sum(lanes, 0);
  auto target = out.partition({m.cols});
  if (m.accumulate) total = total + target.load({column});
  target.store({column}, total.to(m.type));
}

Launch reduce_partials(const Machine& machine, const std::string& out, DType type, bool accumulate, int64_t cols,
                       DType from) {
  const bool gpu = machine.target == Target::nvptx;
  // 64 lanes of a GPU: every thread has four vectors under way, and 132 partials take three iterations.
  const ReducePartialsMeta meta{.type = type,
                                .from = from,
                                .out = out,
                                .accumulate = accumulate,
                                .n = cols,
                                .rows = gpu ? 64 : 4,
                                .cols = gpu ? 64 : 256};
  Launch launch{.program = record("reduce_partials", type, &reduce_partials, meta), .num_warps = 8};
  launch.grid = [blocks = ceil_div(cols, meta.cols)](int64_t) { return grid_of(blocks); };
  return launch;
}

}  // namespace ligerdsl::kernels
