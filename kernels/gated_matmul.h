// The gate and up projections of a gated MLP with its activation: out = f(x gate^T) (x up^T).
#pragma once

#include "kernels/matmul.h"

namespace ligerdsl::kernels {

struct GatedMatmulOptions {
  int64_t cols = 4096;   // F: width of out
  int64_t width = 4096;  // K: of x
  DType type = bf16;
  Activation activation = Activation::silu;
  bool stores_products = false;  // beside out
  int64_t most_rows = 0;         // that calls have, for the schedule; 0: any number

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("width", width);
    v("type", type);
    v("activation", activation, {"gelu_tanh", "gelu_erf", "silu", "relu", "relu_squared"});
    v("stores_products", stores_products);
    v("most_rows", most_rows);
  }
};

// tile_n: of out, and of each of the two products.
struct GatedMatmulMeta : MatmulMeta {
  Activation activation = Activation::silu;
  bool stores_products = false;
};

// Arguments, all of one type: x [M, K], gate_weight and up_weight [F, K], out [M, F]; where they are stored also gate and up
// [M, F]. Nothing overlaps.
void gated_matmul(KernelBuilder& k, const GatedMatmulMeta& m);

// Rows: of x.
Operation gated_matmul(const Machine& machine, const GatedMatmulOptions& options);

}  // namespace ligerdsl::kernels
