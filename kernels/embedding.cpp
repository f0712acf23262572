// out[i, :] = table[index_i, :], an exact copy, or round(table[index_i, :] + position_table[i mod P, :]); n H elements read
// and written, and the P H of the positions, which the caches keep.
#include "kernels/embedding.h"

#include "kernels/cross_entropy.h"
#include "kernels/index_view.h"

namespace ligerdsl::kernels {

void embedding_forward(KernelBuilder& k, const EmbeddingMeta& m) {
  View out = k.view("out", m.type, {dyn, m.cols});
  View table = k.view("table", m.type, {m.vocabulary, m.cols});
  View indices = index_view(k, "indices", m.index_type);
  View error = k.view("error", i64, {1});

  Scalar blocks = cdiv(table.dim(1), m.block).to(i32);
  Scalar row = k.program_id(0) / blocks, column = k.program_id(0) % blocks;
  Scalar index = indices.load({row}).to(i64);  // compared in 64 bits
  Scalar inside = index >= 0 && index < table.dim(0);
  Tile values = table.partition({squeeze, m.block}).load({where(inside, index, 0), column});
  if (m.positions > 0) {
    View position_table = k.view("position_table", m.type, {m.positions, m.cols});
    Tile position = position_table.partition({squeeze, m.block}).load({row.to(i64) % m.positions, column});
    values = (values.to(f32) + position.to(f32)).to(m.type);
  }
  Tile nan = k.full({m.block}, std::numeric_limits<float>::quiet_NaN(), f32).to(m.type);
  out.partition({squeeze, m.block}).store({row, column}, where(inside, values, nan));
  atomic_max(error.ptr(), kErrorBase - row.to(i64), !inside);
}

}  // namespace ligerdsl::kernels
