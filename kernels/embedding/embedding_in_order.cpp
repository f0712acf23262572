// Gradient of an f32 table without sorting. A program has a block of columns. It visits all indices
// in order and adds each row of d_out to its table row in memory. Only blocks of columns run in
// parallel, which suits a CPU.
//
// An f32 gradient of the position table is added in the same loop, so that d_out is read once.
//
// Bytes, s = sizeof(type): n H (s + 8), and 4 V H written unless d_table accumulates. A position
// table adds 8 n H bytes, which stay in the caches.
#include "kernels/core/index_view.h"
#include "kernels/core/record.h"
#include "kernels/embedding/embedding.h"

namespace ligerdsl::kernels {
namespace {

bool adds_positions(const EmbeddingOptions& m) {
  return m.positions > 0 && m.d_position_type == f32;
}

void clear_table(KernelBuilder& k, const EmbeddingBackwardMeta& m) {
  View d_table = k.view("d_table", f32, {m.vocabulary, m.cols});
  const int64_t blocks = ceil_div(m.cols, m.block);
  Scalar program = k.program_id(0).to(i64);
  Scalar first = program / blocks * m.rows, column = program % blocks;
  auto tiles = d_table.partition({squeeze, m.block});
  k.for_range(first, min(first + m.rows, d_table.dim(0)), 1, [&](Scalar v) {
    tiles.store({v, column}, k.zeros({m.block}, f32));
  });
}

void add_in_order(KernelBuilder& k, const EmbeddingBackwardMeta& m) {
  View d_table = k.view("d_table", f32, {m.vocabulary, m.cols});
  View d_out = k.view("d_out", m.type, {dyn, m.cols});
  View indices = index_view(k, "indices", m.index_type);
  auto table = d_table.partition({squeeze, m.block}),
       gradients = d_out.partition({squeeze, m.block});
  Scalar first_row;
  if (m.shard) first_row = k.scalar("first_row", i64);
  Scalar column = k.program_id(0).to(i64);
  // Calls also(row i of d_out), and adds the row to d_table if its index is a table row.
  const auto add = [&](const Scalar& i, const auto& also) {
    Scalar v = indices.load({i}).to(i64);
    if (m.shard) v = v - first_row;
    k.if_(
        v >= 0 && v < m.vocabulary,
        [&] {
          Tile d = gradients.load({i, column}).to(f32);
          also(d);
          table.store({v, column}, table.load({v, column}) + d);
        },
        [&] {
          also(gradients.load({i, column}).to(f32));
        });
  };
  Scalar n = indices.dim(0);
  if (!adds_positions(m)) {
    k.for_range(0, n, 1, [&](Scalar i) { add(i, [](const Tile&) {}); });
    return;
  }
  View d_position_table = k.view("d_position_table", f32, {m.positions, m.cols});
  auto positions = d_position_table.partition({squeeze, m.block});
  // The first row of each position is stored, not added, so that no old value is read.
  Scalar begun = m.accumulate_positions ? k.constant(0, i64) : min(n.to(i64), m.positions);
  if (!m.accumulate_positions) {
    k.for_range(0, begun, 1, [&](Scalar i) {
      add(i, [&](const Tile& d) { positions.store({i, column}, d); });
    });
    k.for_range(begun, m.positions, 1, [&](Scalar p) {
      positions.store({p, column}, k.zeros({m.block}, f32));
    });
  }
  k.for_range(begun, n.to(i64), 1, [&](Scalar i) {
    Scalar p = i % m.positions;
    add(i, [&](const Tile& d) { positions.store({p, column}, positions.load({p, column}) + d); });
  });
}

}  // namespace

Operation embedding_backward_in_order(const EmbeddingOptions& options,
                                      const EmbeddingBackwardConfig& config) {
  EmbeddingBackwardMeta meta{options};
  meta.block = config.block;
  meta.rows = config.rows;
  const int64_t blocks = ceil_div(options.cols, meta.block);
  Operation op;
  const auto add = [&](const char* name, auto build, const Size& programs) {
    op.steps.push_back(
        record_step(name, options.type, build, meta, library_launch(programs, config.num_warps)));
  };
  if (!options.accumulate)
    add("embedding_clear_table", &clear_table, ceil_div(options.vocabulary, meta.rows) * blocks);
  add("embedding_add_in_order", &add_in_order, blocks);
  if (options.positions > 0 && !adds_positions(options))
    op.steps.push_back(embedding_positions_step(options, config));
  return op;
}

}  // namespace ligerdsl::kernels
