// out[i, :] = table[index_i, :], an exact copy; n H elements read and written.
//
// d_table[v, :] = sum over i with index_i = v of d_out[i, :], in the order of i, in f32, rounded once. A program owns
// `rows` rows of the table (and `block` columns), scans all indices, `scan` at a time, and adds the rows that are its
// own: no atomics, so the result is the same in every run. Rows that no index names become 0.
#include "kernels/embedding.h"

#include "kernels/cross_entropy.h"
#include "kernels/record.h"
#include "kernels/tile_shape.h"

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

void embedding_backward(KernelBuilder& k, const EmbeddingMeta& m) {
  View d_table = k.view("d_table", m.d_table_type, {m.vocabulary, m.cols});
  View d_out = k.view("d_out", m.type, {dyn, m.cols});
  View indices = k.view("indices", m.index_type, {dyn});

  Scalar blocks = cdiv(d_table.dim(1), m.block).to(i32);
  Scalar group = k.program_id(0) / blocks, column = k.program_id(0) % blocks;
  Scalar first = group.to(i64) * m.rows;
  Tile offset = k.arange(m.scan);
  Tile row_of_tile = k.arange(m.rows).expand_dims(1);
  auto gradients = d_out.partition({squeeze, m.block});

  auto [total] = k.for_range(
      0, cdiv(indices.dim(0), m.scan), 1, carry(k.zeros({m.rows, m.block}, f32)), [&](Scalar b, Tile total) {
        Tile own = indices.partition({m.scan}).load({b}, {.pad = -1.0}).to(i64) - first;
        Tile mine = own >= 0 && own < m.rows && own + first < d_table.dim(0);
        auto next_after = [&](const Scalar& last) {  // position of the next of our indices, or m.scan
          return reduce_min(where(mine && offset > last, offset, static_cast<int32_t>(m.scan)));
        };
        auto [end, sum_here] = k.while_(
            carry(next_after(k.constant(-1, i32)), total), [&](Scalar at, Tile) { return at < m.scan; },
            [&](Scalar at, Tile acc) {
              Scalar row = (indices.load({b.to(i64) * m.scan + at.to(i64)}).to(i64) - first).to(i32);
              Tile gradient = gradients.load({b.to(i64) * m.scan + at.to(i64), column}).to(f32).expand_dims(0);
              Tile sum = m.rows == 1 ? acc + gradient : where(row_of_tile == row, acc + gradient, acc);
              return carry(next_after(at), sum);
            });
        return carry(sum_here);
      });
  auto target = d_table.partition({m.rows, m.block});
  if (m.accumulate) total = total + target.load({group, column});
  target.store({group, column}, total.to(m.d_table_type));
}

Operation embedding_forward(const Machine& machine, const EmbeddingOptions& options) {
  EmbeddingMeta meta{options};
  // Four vectors of a thread wait for one index together.
  const int64_t most = machine.target == Target::nvptx ? 1024 * vector_width(options.type) : 4096;
  meta.block = std::min(tile_width(options.cols), most);
  Launch launch{.program = record("embedding_forward", options.type, &embedding_forward, meta),
                .num_warps = warps_for(meta.block, options.type, 4, 8)};
  launch.grid = [blocks = ceil_div(options.cols, meta.block)](int64_t n) { return grid_of(n * blocks); };
  return {.launches = {launch}};
}

Operation embedding_backward(const Machine& machine, const EmbeddingOptions& options) {
  EmbeddingMeta meta{options};
  const bool gpu = machine.target == Target::nvptx;
  // Owning whole rows, and several of them, saves scans of the indices; a thread keeps four times 8 elements at most.
  meta.block = std::min<int64_t>(tile_width(options.cols), gpu ? 4096 : 1024);
  meta.rows = options.vocabulary < 2048 ? 1 : options.vocabulary < 16384 || gpu ? 4 : 8;
  if (gpu) meta.scan = 1024;
  const int num_warps = gpu ? std::max(4, warps_for(meta.block, options.type, 1, 16)) : 1;
  Launch launch{.program = record("embedding_backward", options.type, &embedding_backward, meta),
                .num_warps = num_warps};
  launch.grid = [programs = ceil_div(options.vocabulary, meta.rows) * ceil_div(options.cols, meta.block)](int64_t) {
    return grid_of(programs);
  };
  return {.launches = {launch}};
}

}  // namespace ligerdsl::kernels
