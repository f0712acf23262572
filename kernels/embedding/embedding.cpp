// out[i, :] = table[index_i, :], an exact copy. With positions it is round(table[index_i, :] +
// position_table[i mod P, :]).
//
// The kernel reads and writes n H elements. It also reads the P H elements of the position table,
// which stay in the caches. A shard has a part of the table's rows. It writes zeros for indices of
// other shards, so that the sum of all shards' outputs is the result.
#include "kernels/embedding/embedding.h"

#include "kernels/core/error_flag.h"
#include "kernels/core/index_view.h"

namespace ligerdsl::kernels {

void embedding_forward(KernelBuilder& k, const EmbeddingMeta& m) {
  View out = k.view("out", m.type, {dyn, m.cols});
  View table = k.view("table", m.type, {m.vocabulary, m.cols});
  View indices = index_view(k, "indices", m.index_type);
  View error = k.view("error", i64, {1});

  Scalar first_row, total_rows;
  if (m.shard) first_row = k.scalar("first_row", i64), total_rows = k.scalar("total_rows", i64);

  const bool positions = m.positions > 0;
  const View position_table =
      positions ? k.view("position_table", m.type, {m.positions, m.cols}) : View{};
  const Partition named = table.partition({squeeze, m.block}),
                  results = out.partition({squeeze, m.block});

  Scalar blocks = cdiv(table.dim(1), m.block).to(i32);
  const Scalar first = (k.program_id(0) / blocks).to(i64) * m.rows,
               column = k.program_id(0) % blocks;
  struct Row {
    Scalar number, valid;  // valid: the index is a row of the whole table
    Tile values;
  };
  // The loads of all indices are independent of each other, so they are in flight together. The
  // loads of the table rows follow, also in flight together.
  std::vector<Row> rows;
  for (int64_t r = 0; r < m.rows; ++r) {
    // Comparisons use i64, so that no index wraps to a valid row.
    const Scalar row = first + r, index = indices.load({row}).to(i64);
    const Scalar local = m.shard ? index - first_row : index;
    const Scalar inside = local >= 0 && local < table.dim(0);
    const Scalar valid = m.shard ? index >= 0 && index < total_rows : inside;
    Tile values = named.load({where(inside, local, 0), column});
    if (m.shard) values = where(inside, values, k.zeros({m.block}, m.type));
    if (positions) {
      const Tile position =
          position_table.partition({squeeze, m.block}).load({row % m.positions, column});
      values = values.to(f32) + position.to(f32);
    }
    rows.push_back({row, valid, values});
  }
  for (const auto& [row, valid, values] : rows) {
    const Tile nan =
        k.full({m.block}, std::numeric_limits<float>::quiet_NaN(), f32).to(values.dtype());
    results.store({row, column}, where(valid, values, nan).to(m.type));
  }
  for (const auto& row : rows) atomic_max(error.ptr(), kErrorBase - row.number, !row.valid);
}

}  // namespace ligerdsl::kernels
