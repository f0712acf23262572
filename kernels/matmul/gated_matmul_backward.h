// The gradients of gate and up, which are made again: of out = f(x gate^T) (x up^T), from that of out.
#pragma once

#include "kernels/matmul/matmul.h"

namespace ligerdsl::kernels {

struct GatedMatmulBackwardOptions {
  int64_t cols = 4096;   // F: width of out
  int64_t width = 4096;  // K: of x
  DType type = bf16;
  Activation activation = Activation::silu;
  bool stores_out = false;  // out is made again too
  int64_t most_rows = 0;    // that calls have, for the schedule; 0: any number

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

// tile_n: of out, and of each of the two products.
struct GatedMatmulBackwardMeta : MatmulMeta {
  Activation activation = Activation::silu;
  bool stores_out = false;
};

// Arguments, all of one type: x [M, K], gate_weight and up_weight [F, K], d_out, d_gate and d_up [M, F]; where it is stored also out [M, F].
// Nothing overlaps.
void gated_matmul_backward(KernelBuilder& k, const GatedMatmulBackwardMeta& m);

// Rows: of x.
Operation gated_matmul_backward(const Machine& machine, const GatedMatmulBackwardOptions& options);

}  // namespace ligerdsl::kernels
