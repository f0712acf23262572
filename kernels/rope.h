// Rotary position embedding, half rotation (NeoX / Hugging Face layout), of q and k in one launch.
#pragma once

#include "kernels/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct RopeOptions {
  DType type = f32;        // of q and k
  DType angle_type = f32;  // of cos and sin
  int64_t q_heads = 1;
  int64_t k_heads = 1;          // any number; 0: there is no k
  int64_t head_dim = 64;        // D >= 2
  bool batched_angles = false;  // cos and sin have a batch dimension of their own, else one is shared by all

  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("angle_type", angle_type);
    v("q_heads", q_heads);
    v("k_heads", k_heads);
    v("head_dim", head_dim);
    v("batched_angles", batched_angles);
  }
};

struct RopeMeta : RopeOptions {
  int64_t q_block = 1;  // heads of a tile
  int64_t k_block = 1;
  int64_t half = 32;  // tile width >= D / 2
  bool tail = false;  // D is odd: the last element passes through
};

// Arguments, h = D / 2 rounded down:
//   q_out, q_in [batch, seq, q_heads, 2, h] type: a view of q whose last two dimensions are the halves (strides h e, e
//   for
//     elements e apart); q_out may be exactly q_in. When D is odd also q_tail_out, q_tail_in [batch, seq, q_heads]: its
//     last element. The same for k unless k_heads is 0.
//   cos, sin [1 or batch, seq, h] angle_type (the first half of each row); sign f32: 1 forward, -1 backward.
void rope(KernelBuilder& k, const RopeMeta& m);

// Rows: tokens, batch * seq.
Operation rope(const Machine& machine, const RopeOptions& options);

}  // namespace ligerdsl::kernels
