// Attention that stores no scores, forward and backward.
#pragma once

#include "kernels/core/config.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct AttentionOptions {
  DType type = bf16;       // of q, k, v, o and their gradients
  int64_t dim = 128;       // D: columns of a head, at most kMostAttentionDim
  int64_t heads = 32;      // A: of q and o
  int64_t kv_heads = 8;    // K, a divisor of A: of k and v
  int64_t queries = 4096;  // S, for grids alone
  int64_t keys = 4096;     // T, for grids alone
  bool left = false;       // keys further to the left than the window are not seen
  bool right = true;       // keys further to the right than the window are not seen; causal: a window of 0
  bool softcap = false;
  bool with_lse = false;   // forward: lse is wanted
  int64_t sequences = 0;   // of several lengths in one call, for grids alone; 0: of one length, a batch
  DType index_type = i32;  // of their bounds

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
    v("sequences", sequences);
    if (sequences) v("index_type", index_type);
  }
};

constexpr int64_t kMostAttentionDim = 256;

struct AttentionMeta : AttentionOptions {
  int64_t tile_q = 64, tile_k = 64;  // queries and keys of a block of scores
  int64_t width = 128;               // columns of a head's tile, at least dim
  int stages = 1;                    // loads in flight
  bool reload = false;               // what all turns of a loop share is loaded in it, not held in registers
  bool ahead = false;                // forward: a block's scores are multiplied beside the values of the one before
  bool tensor_copies = false;        // what loops load comes in whole tiles; forward with `ahead`
  int64_t cached_bytes = 1;          // of what programs of several heads read at the same time
  bool d_k = true, d_v = true;       // what attention_backward_keys makes

  int tokens_axis() const { return sequences ? 0 : 1; }
};

// Arguments of all: q, o, d_o, d_q [batch, S, A, D], k, v, d_k, d_v [batch, T, K, D] type; lse, delta [batch, A, S] f32;
// strides are any but the last, 1. scale f32, more than 0. With softcap f32 cap and inverse_cap, 1 / cap; with `left` and `right`
// i64 window_left and window_right, 0 or more. Nothing overlaps.
//
// With `sequences` tensors have no batch: [S, A, D], [T, K, D] and [A, S], the tokens of all sequences one behind the other. Sequence n has queries
// [cu_seqlens_q[n], cu_seqlens_q[n + 1]) and so keys by cu_seqlens_k, both [sequences + 1] index_type of any stride; i64 max_queries and max_keys:
// as many as one has at most, by which grids are made. error [1] i64: where the first sequence is reported of which this does not hold, or whose
// neighbours leave tokens that no sequence has (kErrorBase). Then every access stays within the arguments, and results are not defined.

// o, [lse], q, k, v.
void attention_forward(KernelBuilder& k, const AttentionMeta& m);

// delta, o, d_o: sums of o d_o; without scale, cap, windows and bounds.
void attention_delta(KernelBuilder& k, const AttentionMeta& m);

// [d_k], [d_v], q, k, [v], d_o, lse, [delta]; v and delta where d_k is made. Of a block of keys, over all queries that see them.
void attention_backward_keys(KernelBuilder& k, const AttentionMeta& m);

// d_q, q, k, v, d_o, lse, delta. Of a block of queries, over all keys that they see.
void attention_backward_queries(KernelBuilder& k, const AttentionMeta& m);

// Rows: batches; with `sequences` all queries or all keys, whichever are more.
Operation attention_forward(const Machine& machine, const AttentionOptions& options);
Operation attention_backward(const Machine& machine, const AttentionOptions& options);

struct AttentionConfig {
  int queries = 64, keys = 64;  // of a block of scores
  int stages = 2;               // loads of keys and values in flight
  int num_warps = 4;
  bool reload = false;         // queries wait in shared memory, not in registers
  bool ahead = false;          // a block's scores and the values of the one before are multiplied under the weights
  bool tensor_copies = false;  // with ahead: keys and values come in whole tiles

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

// k_: of the programs of a block of keys, which make d_k and d_v; q_: of those of a block of queries, which make d_q.
struct AttentionBackwardConfig {
  int k_queries = 64, k_keys = 64, k_stages = 2, k_warps = 4;
  bool k_reload = false;
  bool apart = false;  // d_k and d_v are made by a program each: fewer sums at once, scores once more
  int q_queries = 64, q_keys = 64, q_stages = 2, q_warps = 4;
  bool q_reload = false;
  bool k_tensor_copies = false, q_tensor_copies = false;  // what loops load comes in whole tiles

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
