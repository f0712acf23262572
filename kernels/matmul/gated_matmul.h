// Gate and up projections of a gated MLP: out = f(x gate_weight^T) (x up_weight^T).
#pragma once

#include <vector>

#include "kernels/core/config.h"
#include "kernels/matmul/gated_matmul_backward.h"
#include "kernels/matmul/matmul.h"

namespace ligerdsl::kernels {

struct GatedMatmulOptions {
  int64_t cols = 4096;   // F: columns of out
  int64_t width = 4096;  // K: columns of x
  DType type = bf16;
  Activation activation = Activation::silu;
  bool stores_products = false;  // also store gate and up
  int64_t most_rows = 0;         // upper bound of M in all calls, for the schedule; 0: none

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

// tile_n is the tile width of out, and of each of the two matmuls.
struct GatedMatmulMeta : MatmulMeta {
  Activation activation = Activation::silu;
  bool stores_products = false;
};

// Arguments, all of dtype `type`: x [M, K], gate_weight and up_weight [F, K], out [M, F]; with
// stores_products also gate and up [M, F]. The arguments do not overlap.
void gated_matmul(KernelBuilder& k, const GatedMatmulMeta& m);

// Rows: rows of x.
Operation gated_matmul(const Machine& machine, const GatedMatmulOptions& options);

struct GatedMatmulConfig {
  int tile_m = 128, tile_n = 128;  // tile of out, gate and up
  int tile_k = 64;                 // columns of x and of both weights per k-step
  int stages = 3;                  // num_stages of the loop over k
  int num_warps = 8;
  int group = 16;              // rows of tiles per group of concurrent programs
  bool persistent = false;     // one program per SM, which loops over tiles
  bool tensor_copies = false;  // load operands by TMA copies
  bool tensor_stores = false;  // store results by TMA copies (MatmulConfig)

  template <class V>
  void visit(V&& v) {
    v("tile_m", tile_m, powers_of_two(16, 256), Bits::same);
    v("tile_n", tile_n, powers_of_two(16, 128), Bits::same);
    v("tile_k", tile_k, powers_of_two(16, 128), Bits::same);
    v("stages", stages, choices({1, 2, 3, 4, 5, 6}), Bits::same);
    v("num_warps", num_warps, powers_of_two(2, 16), Bits::same);
    v("group", group, powers_of_two(1, 64), Bits::same);
    v("persistent", persistent, Bits::same);
    v("tensor_copies", tensor_copies, Bits::same);
    v("tensor_stores", tensor_stores, Bits::same);
  }
};

// Return the values of most_rows that have their own schedules, like few_rows of matmul.h.
std::vector<int64_t> few_rows(const Machine& machine, const GatedMatmulOptions& options);
std::vector<int64_t> few_rows(const Machine& machine, const GatedMatmulBackwardOptions& options);

using GatedMatmul = ConfiguredKernel<GatedMatmulOptions, GatedMatmulConfig>;
extern const GatedMatmul gated_matmul_kernel;

using GatedMatmulBackward = ConfiguredKernel<GatedMatmulBackwardOptions, GatedMatmulConfig>;
extern const GatedMatmulBackward gated_matmul_backward_kernel;

}  // namespace ligerdsl::kernels
