// Attention, forward and backward, without storing the scores.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct AttentionOptions {
  DType type = bf16;       // dtype of q, k, v, o and their gradients
  int64_t dim = 128;       // D: columns of a head, at most kMostAttentionDim
  int64_t heads = 32;      // A, heads of q and o
  int64_t kv_heads = 8;    // K, heads of k and v; a divisor of A
  int64_t queries = 4096;  // S, for the grid and the workspace; kernels do not depend on it
  int64_t keys = 4096;     // T, for the grid; kernels do not depend on it
  bool left = false;       // query i does not see keys j < i + T - S - window_left
  bool right = true;       // query i does not see keys j > i + T - S + window_right; 0: causal
  bool softcap = false;
  bool with_lse = false;    // forward: also store lse
  bool with_sinks = false;  // forward: heads have a sink; backward: also compute d_sinks
  bool with_d_lse = false;  // backward: lse has an upstream gradient d_lse
  int64_t sequences = 0;    // number of sequences of different lengths; 0: a batch of equal lengths
  DType index_type = i32;   // dtype of cu_seqlens_q and cu_seqlens_k

  int64_t group() const { return heads / kv_heads; }

  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("dim", dim);
    v("heads", heads);
    v("kv_heads", kv_heads);
    v("queries", queries);
    v("keys", keys);
    v("left", left);
    v("right", right);
    v("softcap", softcap);
    v("with_lse", with_lse);
    v("with_sinks", with_sinks);
    v("with_d_lse", with_d_lse);
    v("sequences", sequences);
    if (sequences) v("index_type", index_type);
  }
};

constexpr int64_t kMostAttentionDim = 256;

struct AttentionMeta : AttentionOptions {
  int64_t tile_q = 64, tile_k = 64;  // queries and keys per block of scores
  int64_t width = 128;               // columns of a head's tile, at least dim
  int stages = 1;                    // num_stages of the loop
  bool reload = false;               // load the program's own block from shared memory in the loop
  bool ahead = false;          // forward: overlap a block's scores with the previous block's values
  bool tensor_copies = false;  // loads in loops are TMA copies; forward needs `ahead`
  int64_t cached_bytes = 1;    // bytes of L2 that keys and values of concurrent heads may use
  bool d_k = true, d_v = true;  // gradients that attention_backward_keys computes

  int tokens_axis() const { return sequences ? 0 : 1; }
};

// Arguments of all kernels:
// - `type`: q, o, d_o, d_q [batch, S, A, D] and k, v, d_k, d_v [batch, T, K, D]. The last stride is
//   1; the others may be any value.
// - f32: lse, d_lse and delta [batch, A, S], with the same rule for strides.
// - f32: sinks and d_sinks [A], contiguous. A value of -inf, or below -2.3e38, means no sink;
//   values above 2.3e38 are not supported.
// - f32 scalars: scale > 0; with softcap also cap and inverse_cap = 1 / cap.
// - i64 scalars: window_left with `left`, window_right with `right`; both are 0 or more.
//
// The arguments do not overlap.
//
// With `sequences`, tensors have no batch dimension: [S, A, D], [T, K, D] and [A, S] hold the
// tokens of all sequences, one sequence after the other. Additional arguments:
// - cu_seqlens_q, cu_seqlens_k [sequences + 1] index_type, any stride: sequence n has the queries
//   [cu_seqlens_q[n], cu_seqlens_q[n + 1]); cu_seqlens_k bounds its keys in the same way.
// - i64 max_queries, max_keys: upper bounds of a sequence's length, from which grids are computed.
// - error [1] i64, except in attention_backward_keys: reports the first sequence that breaks these
//   rules, or that leaves tokens without a sequence (kErrorBase). Then accesses stay within the
//   arguments, and results are undefined.

// Arguments: o, [lse], q, k, v, [sinks].
void attention_forward(KernelBuilder& k, const AttentionMeta& m);

// Computes delta = row sums of o * d_o, minus d_lse. With `with_sinks`, each program also stores
// its part of d_sinks. Arguments: delta, o, d_o, [lse], [d_lse], [sinks, sink_partials [A, programs
// per head] f32], and no scalars or sequences.
void attention_delta(KernelBuilder& k, const AttentionMeta& m);

// Computes d_sinks: one program per head adds the head's parts in a fixed order. Arguments:
// d_sinks, sink_partials.
void attention_d_sinks(KernelBuilder& k, const AttentionMeta& m);

// Computes d_k, d_v or both for a block of keys from all queries that see it. Arguments: [d_k],
// [d_v], q, k, [v], d_o, lse, [delta]; v and delta only if d_k is computed.
void attention_backward_keys(KernelBuilder& k, const AttentionMeta& m);

// Computes d_q of a block of queries from all keys that it sees. Arguments: d_q, q, k, v, d_o, lse,
// delta.
void attention_backward_queries(KernelBuilder& k, const AttentionMeta& m);

// Rows: number of batches; with `sequences`, the larger of the total numbers of queries and keys.
Operation attention_forward(const Machine& machine, const AttentionOptions& options);
Operation attention_backward(const Machine& machine, const AttentionOptions& options);

struct AttentionConfig {
  int queries = 64, keys = 64;  // per block of scores
  int stages = 2;               // num_stages of the loop over keys
  int num_warps = 4;
  bool reload = false;         // queries stay in shared memory, not in registers
  bool ahead = false;          // overlap a block's scores with the previous block's values
  bool tensor_copies = false;  // keys and values are loaded by TMA copies; needs `ahead`

  template <class V>
  void visit(V&& v) {
    v("queries", queries, powers_of_two(16, 256), Bits::same);
    v("keys", keys, powers_of_two(16, 256), Bits::row);
    v("stages", stages, choices({1, 2, 3, 4}), Bits::same);
    v("num_warps", num_warps, powers_of_two(1, 16), Bits::same);
    v("reload", reload, Bits::same);
    v("ahead", ahead, Bits::same);
    v("tensor_copies", tensor_copies, Bits::same);
  }
};

// Fields k_*: kernel whose programs compute d_k and d_v of a block of keys. Fields q_*: kernel
// whose programs compute d_q of a block of queries.
struct AttentionBackwardConfig {
  int k_queries = 64, k_keys = 64, k_stages = 2, k_warps = 4;
  bool k_reload = false;
  bool apart = false;  // separate kernels for d_k and d_v: fewer accumulators; both compute scores
  int q_queries = 64, q_keys = 64, q_stages = 2, q_warps = 4;
  bool q_reload = false;
  bool k_tensor_copies = false, q_tensor_copies = false;  // loads in loops are TMA copies

  template <class V>
  void visit(V&& v) {
    v("k_queries", k_queries, powers_of_two(16, 256), Bits::batch);
    v("k_keys", k_keys, powers_of_two(16, 256), Bits::same);
    v("k_stages", k_stages, choices({1, 2, 3, 4}), Bits::same);
    v("k_warps", k_warps, powers_of_two(1, 16), Bits::same);
    v("k_reload", k_reload, Bits::same);
    v("apart", apart, Bits::same);
    v("q_queries", q_queries, powers_of_two(16, 256), Bits::same);
    v("q_keys", q_keys, powers_of_two(16, 256), Bits::row);
    v("q_stages", q_stages, choices({1, 2, 3, 4}), Bits::same);
    v("q_warps", q_warps, powers_of_two(1, 16), Bits::same);
    v("q_reload", q_reload, Bits::same);
    v("k_tensor_copies", k_tensor_copies, Bits::same);
    v("q_tensor_copies", q_tensor_copies, Bits::same);
  }
};

using AttentionForward = ConfiguredKernel<AttentionOptions, AttentionConfig>;
using AttentionBackward = ConfiguredKernel<AttentionOptions, AttentionBackwardConfig>;
extern const AttentionForward attention_forward_kernel;
extern const AttentionBackward attention_backward_kernel;

}  // namespace ligerdsl::kernels
