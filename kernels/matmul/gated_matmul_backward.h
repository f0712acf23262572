// Gradients of gate and up in out = f(gate) up, from the gradient of out. Recomputes gate = x
// gate_weight^T and up = x up_weight^T.
#pragma once

#include "kernels/matmul/matmul.h"

namespace ligerdsl::kernels {

struct GatedMatmulBackwardOptions {
  int64_t cols = 4096;   // F: columns of out
  int64_t width = 4096;  // K: columns of x
  DType type = bf16;
  Activation activation = Activation::silu;
  bool stores_out = false;  // also recompute and store out
  int64_t most_rows = 0;    // upper bound of M in all calls, for the schedule; 0: none

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("width", width);
    v("type", type);
    v("activation", activation, {"gelu_tanh", "gelu_erf", "silu", "relu", "relu_squared"});
    v("stores_out", stores_out);
    v("most_rows", most_rows);
  }
};

// tile_n is the tile width of out, and of each of the two matmuls.
struct GatedMatmulBackwardMeta : MatmulMeta {
  Activation activation = Activation::silu;
  bool stores_out = false;
};

// Arguments, all of dtype `type`: x [M, K], gate_weight and up_weight [F, K], d_out, d_gate and
// d_up [M, F]; with stores_out also out [M, F]. The arguments do not overlap.
void gated_matmul_backward(KernelBuilder& k, const GatedMatmulBackwardMeta& m);

// Rows: rows of x.
Operation gated_matmul_backward(const Machine& machine, const GatedMatmulBackwardOptions& options);

}  // namespace ligerdsl::kernels
