// Attention without stored scores (Dao, "FlashAttention-2", 2023, algorithm 1). A program handles
// one block of queries. It loops over blocks of keys and carries three accumulators per query: the
// maximum score, the sum of exponentials and the weighted sum of values.
//
//   o[h, i] = sum_j p_ij v[h / group, j]
//   p_ij = e^(scale q[h, i] . k[h / group, j]) / e^lse[h, i]
//
// q and o [heads, queries, dim], k and v [heads / group, keys, dim] of one type; lse [heads,
// queries] f32. `heads` is the number of query heads times the batch size. With `causal`, the last
// key that query i sees is i + keys - queries. Rows are contiguous. Any number of queries and keys
// is allowed, but causal needs keys >= queries. Memory traffic: q and o once, k and v once per
// block of queries, mostly from L2.
#pragma once

#include <ligerdsl/dsl.h>

namespace author_kernels {

using namespace ligerdsl;

struct FlashAttentionMeta {
  DType type = bf16;
  int64_t dim = 128;  // columns per head
  int64_t group = 1;  // query heads per key head
  bool causal = true;
  int64_t queries = 128, keys = 64;  // per block
  int64_t stages = 2;
  int64_t warps = 8;
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("dim", dim);
    v("group", group);
    v("causal", causal);
    v("queries", queries, powers_of_two(16, 256), Bits::same);
    v("keys", keys, powers_of_two(16, 128), Bits::row);
    v("stages", stages, choices({1, 2, 3}), Bits::same);
    v("warps", warps, choices({4, 8}), Bits::same);
  }
};

inline void flash_attention(KernelBuilder& k, const FlashAttentionMeta& m) {
  View o = k.view("o", m.type, {dyn, dyn, m.dim}), lse = k.view("lse", f32, {dyn, dyn});
  View q = k.view("q", m.type, {dyn, dyn, m.dim});
  View key = k.view("k", m.type, {dyn, dyn, m.dim}), value = k.view("v", m.type, {dyn, dyn, m.dim});
  Scalar scale = k.scalar("scale", f32);
  Scalar block = k.program_id(0), head = k.program_id(1),
         shared = head / static_cast<int32_t>(m.group);

  const Tile queries = q.partition({squeeze, m.queries, m.dim}).load({head, block, 0});
  const Partition keys = key.partition({squeeze, m.keys, m.dim}),
                  values = value.partition({squeeze, m.keys, m.dim});
  const Scalar count = key.dim(1), unseen = count - q.dim(1);  // keys before the first query
  const Tile rows = k.arange(m.queries).to(i64) + block.to(i64) * m.queries + unseen;
  Scalar end = count;
  if (m.causal) end = min(count, unseen + (block.to(i64) + 1) * m.queries);

  const Scalar scale_log2 = scale * 1.4426950408889634f;
  auto [top, sum, weighted] = k.for_range(
      k.constant(0, i64), cdiv(end, m.keys), k.constant(1, i64),
      pipelined(static_cast<int>(m.stages)),
      carry(k.full({m.queries}, -INFINITY, f32), k.zeros({m.queries}, f32),
            k.zeros({m.queries, m.dim}, f32)),
      [&](Scalar j, Tile top, Tile sum, Tile weighted) {
        Tile s = dot(queries, keys.load({shared, j, 0}).permute({1, 0}),
                     k.zeros({m.queries, m.keys}, f32)) *
                 scale_log2;
        const Tile column = (k.arange(m.keys).to(i64) + j * m.keys).expand_dims(0);
        Tile seen = column < count;
        if (m.causal) seen = seen && column <= rows.expand_dims(1);
        s = where(seen, s, k.constant(-INFINITY, f32));
        const Tile highest = max(top, reduce_max(s, 1));
        const Tile p = fast_exp2(s - highest.expand_dims(1)), faded = fast_exp2(top - highest);
        return carry(
            highest, sum * faded + ligerdsl::sum(p, 1),
            dot(p.to(m.type), values.load({shared, j, 0}), weighted * faded.expand_dims(1)));
      });
  o.partition({squeeze, m.queries, m.dim})
      .store({head, block, 0}, fast_div(weighted, sum.expand_dims(1)).to(m.type));
  lse.partition({squeeze, m.queries}).store({head, block}, (top + log2(sum)) * 0.6931471805599453f);
}

inline const Kernel<FlashAttentionMeta> flash_attention_kernel{
    .name = "flash_attention",
    .description = "o = softmax(scale q k^T) v, and the logarithm of each row's sum",
    .build = flash_attention,
    .launch = [](const FlashAttentionMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {ceil_div(a.dim("q", 1), m.queries), a.dim("q", 0)},
                    .num_warps = static_cast<int>(m.warps),
                    .no_alias = true};
    }};

}  // namespace author_kernels
