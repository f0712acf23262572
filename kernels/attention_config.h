// The schedules of attention.
#pragma once

#include "kernels/attention.h"
#include "kernels/config.h"

namespace ligerdsl::kernels {

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
