// out[i, :] = table[index_i, :], an exact copy; n H elements read and written.
#include "kernels/embedding.h"

#include "kernels/cross_entropy.h"

namespace ligerdsl::kernels {

void embedding_forward(KernelBuilder& k, const EmbeddingMeta& m) {
  View out = k.view("out", m.type, {dyn, m.cols});
  View table = k.view("table", m.type, {m.vocabulary, m.cols});
  View indices = k.view("indices", m.index_type, {dyn});
  View error = k.view("error", i64, {1});

  Scalar blocks = cdiv(table.dim(1), m.block).to(i32);
  Scalar row = k.program_id(0) / blocks, column = k.program_id(0) % blocks;
  Scalar index = indices.load({row}).to(i64);  // compared in 64 bits
  Scalar inside = index >= 0 && index < table.dim(0);
  Tile values = table.partition({squeeze, m.block}).load({where(inside, index, 0), column});
  Tile nan = k.full({m.block}, std::numeric_limits<float>::quiet_NaN(), f32).to(m.type);
  out.partition({squeeze, m.block}).store({row, column}, where(inside, values, nan));
  atomic_max(error.ptr(), kErrorBase - row.to(i64), !inside);
}

}  // namespace ligerdsl::kernels
