// The schedules of RoPE.
#pragma once

#include "kernels/config.h"
#include "kernels/rope.h"

namespace ligerdsl::kernels {

struct RopeConfig {
  int heads = 1;  // of a tile of q or k, at most
  int num_warps = 4;
  int min_ctas_per_sm = 0;  // 0: no floor

  template <class V>
  void visit(V&& v) {
    v("heads", heads, powers_of_two(1, 8192), Bits::same);
    v("num_warps", num_warps, powers_of_two(1, 32), Bits::same);
    v("min_ctas_per_sm", min_ctas_per_sm, choices({0, 1, 2, 3, 4, 6, 8, 16, 32}), Bits::same);
  }
};

using Rope = ConfiguredKernel<RopeOptions, RopeConfig>;
extern const Rope rope_kernel;

}  // namespace ligerdsl::kernels
