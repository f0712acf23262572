// Dropout: Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting",
// JMLR 2014. Kept elements are scaled by 1 / (1 - p) during training. The mask depends only on the
// seed and the position of the element (Philox, ligerdsl/dsl/random.h):
//
//   y_i = u_i >= p ? x_i / (1 - p) : 0,   u_i in [0, 1): word i % 4 of philox(seed, i / 4)
//
// No mask is stored. The backward pass is the same kernel: it computes d_x from d_y with the seed
// and p of the forward pass. The schedule does not change the results, so the two passes may use
// different schedules. x, y [n]; 0 <= p <= 1. Give each tensor its own seed. Memory traffic: 2 n
// sizeof(type) bytes.
#pragma once

#include <ligerdsl/dsl.h>

namespace author_kernels {

using namespace ligerdsl;

struct DropoutMeta {
  DType type = bf16;
  int64_t block = 2048;  // elements per program
  int64_t vectors = 1;   // 16-byte vectors per thread
  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("block", block, powers_of_two(256, 16384), Bits::same);
    v("vectors", vectors, choices({1, 2, 4}), Bits::same);
  }
};

inline void dropout(KernelBuilder& k, const DropoutMeta& m) {
  View y = k.view("y", m.type, {dyn});
  View x = k.view("x", m.type, {dyn});
  Scalar p = k.scalar("p", f32), seed = k.scalar("seed", i64);

  Scalar block = k.program_id(0).to(i64);
  // Philox returns four random words per counter; four adjacent elements use one word each.
  const auto words = philox(seed, block * (m.block / 4) + k.arange(m.block / 4).to(i64));
  Tile u = uniform(interleave(interleave(words[0], words[2]), interleave(words[1], words[3])));
  Tile v = x.partition({m.block}).load({block}).to(f32);
  y.partition({m.block}).store({block}, where(u >= p, v / (1.0f - p), 0.0f).to(m.type));
}

inline const Kernel<DropoutMeta> dropout_kernel{
    .name = "dropout",
    .description =
        "dropout: y = u >= p ? x / (1 - p) : 0, with u from Philox; also its own backward",
    .build = dropout,
    .launch = [](const DropoutMeta& m, const LaunchArguments& a) {
      return Launch{.grid = {ceil_div(a.dim("x", 0), m.block)},
                    .num_warps = warps_for(m.block, m.type, m.vectors),
                    .no_alias = true};
    }};

}  // namespace author_kernels
