// Lesson 9: attention without scores in memory (Dao, "FlashAttention-2", 2023). The steps: two
// passes over the keys; one pass with an online softmax; pipelined loads; scores of the next block
// during the current softmax; masks only at the edges. The file builds a shared object for the
// `ligerdsl` command. docs/tutorial/09-flash-attention.md explains each step. This command times
// the last one:
//
//   ligerdsl bench --load liblesson_09_flash_attention.so attention_edges
//     o=32x4096x128 q=32x4096x128 k=32x4096x128 v=32x4096x128
//       scale=0.088 --device cuda:0
//
// o[h, i] = sum_j p_ij v[h, j], p_ij = e^(scale q[h, i] . k[h, j] - lse_i), over the keys j <= i
// (causal). q, k, v, o [heads, tokens, dim] of one type, any number of tokens. 2 heads tokens^2 dim
// flop.
#include <ligerdsl/dsl.h>

using namespace ligerdsl;

namespace {

struct Meta {
  DType type = bf16;
  int64_t dim = 128;                 // columns per head
  int64_t queries = 128, keys = 64;  // per block
  int64_t stages = 2;                // num_stages of the loop over blocks of keys
  int64_t warps = 8;
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("dim", dim);
    v("queries", queries, powers_of_two(16, 256), Bits::same);
    v("keys", keys, powers_of_two(16, 128), Bits::row);
    v("stages", stages, choices({1, 2, 3, 4}), Bits::same);
    v("warps", warps, choices({4, 8}), Bits::same);
  }
};

// A block of queries of one head. Scores include the factor log2(e), so that weights are 2^(score -
// maximum).
struct Block {
  KernelBuilder& k;
  Meta m;
  View o, q, key, value;
  Scalar scale, head, number;

  Block(KernelBuilder& k, const Meta& m)
      : k(k),
        m(m),
        o(heads("o")),
        q(heads("q")),
        key(heads("k")),
        value(heads("v")),
        scale(k.scalar("scale", f32) * 1.4426950408889634f),
        head(k.program_id(1)) {
    number =
        cdiv(q.dim(1), m.queries).to(i32) - 1 - k.program_id(0);  // blocks with most keys run first
  }
  View heads(const char* name) const { return k.view(name, m.type, {dyn, dyn, m.dim}); }
  Partition rows(const View& view, int64_t count) const {
    return view.partition({squeeze, count, m.dim});
  }

  Tile queries() const { return rows(q, m.queries).load({head, number, 0}); }
  Tile values(const Scalar& j) const { return rows(value, m.keys).load({head, j, 0}); }
  Scalar blocks_seen() const {
    return cdiv(min(q.dim(1), (number.to(i64) + 1) * m.queries), m.keys);
  }
  Tile scores(const Scalar& j, const Tile& queries) const {
    const Tile keys = rows(key, m.keys).load({head, j, 0});
    return dot(queries, keys.permute({1, 0}), k.zeros({m.queries, m.keys}, f32)) * scale;
  }
  // Returns the scores with -inf for keys after the query or beyond the end of the sequence.
  Tile seen(const Scalar& j, const Tile& s) const {
    const Tile row = k.arange(m.queries).to(i64) + number.to(i64) * m.queries,
               column = k.arange(m.keys).to(i64) + j * m.keys;
    return where(column.expand_dims(0) <= row.expand_dims(1) && column.expand_dims(0) < q.dim(1), s,
                 k.constant(-INFINITY, f32));
  }
  // Like seen, but skips the mask in blocks in which every query sees every key.
  Tile seen_at_edge(const Scalar& j, const Tile& s) const {
    return k.if_((j + 1) * m.keys > number.to(i64) * m.queries, [&] { return seen(j, s); },
                 [&] { return s; });
  }
  Tile nothing() const { return k.full({m.queries}, -INFINITY, f32); }
  Tile zeros() const { return k.zeros({m.queries}, f32); }
  Tile no_values() const { return k.zeros({m.queries, m.dim}, f32); }
  void store(const Tile& weighted, const Tile& sum) const {
    rows(o, m.queries).store({head, number, 0}, fast_div(weighted, sum.expand_dims(1)).to(m.type));
  }
};

// Update of a row by a block of scores: new maximum and sum, the block's weights, and the factor
// that rescales earlier values.
struct Step {
  Tile top, sum, weights, faded;
  Step(const Tile& s, const Tile& before, const Tile& sum_before)
      : top(max(before, reduce_max(s, 1))),
        sum(sum_before),
        weights(fast_exp2(s - top.expand_dims(1))),
        faded(fast_exp2(before - top)) {
    sum = fma(sum_before, faded, ligerdsl::sum(weights, 1));
  }
};

// Step 1: the first pass computes the maximum of each row, the second its weights. Both compute
// every score.
void two_passes(KernelBuilder& k, const Meta& m) {
  const Block b(k, m);
  const Tile queries = b.queries();
  const Scalar zero = k.constant(0, i64), one = k.constant(1, i64);
  auto [top] = k.for_range(zero, b.blocks_seen(), one, pipelined(1), carry(b.nothing()),
                           [&](Scalar j, Tile top) {
                             return carry(max(top, reduce_max(b.seen(j, b.scores(j, queries)), 1)));
                           });
  auto [sum, weighted] = k.for_range(
      zero, b.blocks_seen(), one, pipelined(1), carry(b.zeros(), b.no_values()),
      [&](Scalar j, Tile sum, Tile weighted) {
        const Tile p = fast_exp2(b.seen(j, b.scores(j, queries)) - top.expand_dims(1));
        return carry(sum + ligerdsl::sum(p, 1), dot(p.to(m.type), b.values(j), weighted));
      });
  b.store(weighted, sum);
}

// Step 2: one pass. When a row's maximum grows, its exponentials and its output are rescaled.
// Step 3: with stages > 1, the next blocks of keys and values are copied to shared memory early.
void online(KernelBuilder& k, const Meta& m, int stages) {
  const Block b(k, m);
  const Tile queries = b.queries();
  auto [top, sum, weighted] = k.for_range(
      k.constant(0, i64), b.blocks_seen(), k.constant(1, i64), pipelined(stages),
      carry(b.nothing(), b.zeros(), b.no_values()),
      [&](Scalar j, Tile top, Tile sum, Tile weighted) {
        const Step step(b.seen(j, b.scores(j, queries)), top, sum);
        return carry(
            step.top, step.sum,
            dot(step.weights.to(m.type), b.values(j), weighted * step.faded.expand_dims(1)));
      });
  b.store(weighted, sum);
}

// Step 4: an iteration starts two matmuls: the scores of its block, and the previous block's
// weights times values. So tensor cores work while threads compute weights. On a GPU with TMA, one
// thread copies whole tiles. The first iteration has no previous block: its weights are zeros. The
// last one has no block of its own: all its scores are masked. Step 5: the mask is in a branch that
// nearly all blocks skip.
void ahead(KernelBuilder& k, const Meta& m, bool branch) {
  const Block b(k, m);
  const Scalar zero = k.constant(0, i64);
  auto [top, sum, weighted, last] = k.for_range(
      zero, b.blocks_seen() + 1, k.constant(1, i64),
      {.num_stages = static_cast<int>(m.stages), .tensor_copies = true},
      carry(b.nothing(), b.zeros(), b.no_values(), k.zeros({m.queries, m.keys}, m.type)),
      [&](Scalar j, Tile top, Tile sum, Tile weighted, Tile before) {
        // The queries are loaded inside the loop. The compiler hoists this load: it copies them
        // once to shared memory, where tensor cores read them.
        const Tile s = b.scores(j, b.queries());
        const Tile more = dot(before, b.values(max(j - 1, zero)), weighted);
        const Step step(branch ? b.seen_at_edge(j, s) : b.seen(j, s), top, sum);
        return carry(step.top, step.sum, more * step.faded.expand_dims(1), step.weights.to(m.type));
      });
  b.store(weighted, sum);
}

Launch launch(const Meta& m, const LaunchArguments& a) {
  return {.grid = {ceil_div(a.dim("q", 1), m.queries), a.dim("q", 0)},
          .num_warps = static_cast<int>(m.warps),
          .no_alias = true};
}

Kernel<Meta> rung(const char* name, const char* description,
                  void (*build)(KernelBuilder&, const Meta&)) {
  return {.name = name, .description = description, .build = build, .launch = launch};
}

}  // namespace

const Kernel<Meta> attention_two_passes =
    rung("attention_two_passes", "attention, scores computed twice", two_passes);
const Kernel<Meta> attention_online =
    rung("attention_online", "attention in one pass",
         [](KernelBuilder& k, const Meta& m) { online(k, m, 1); });
const Kernel<Meta> attention_in_flight =
    rung("attention_in_flight", "attention, the next keys in flight",
         [](KernelBuilder& k, const Meta& m) { online(k, m, static_cast<int>(m.stages)); });
const Kernel<Meta> attention_ahead =
    rung("attention_ahead", "attention, next scores during the softmax",
         [](KernelBuilder& k, const Meta& m) { ahead(k, m, false); });
const Kernel<Meta> attention_edges =
    rung("attention_edges", "attention, masks only at the edges",
         [](KernelBuilder& k, const Meta& m) { ahead(k, m, true); });

LIGERDSL_REGISTER_KERNEL(attention_two_passes);
LIGERDSL_REGISTER_KERNEL(attention_online);
LIGERDSL_REGISTER_KERNEL(attention_in_flight);
LIGERDSL_REGISTER_KERNEL(attention_ahead);
LIGERDSL_REGISTER_KERNEL(attention_edges);
LIGERDSL_EXPORT_KERNELS();
