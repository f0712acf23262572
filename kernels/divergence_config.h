// The schedules of divergences.
#pragma once

#include "kernels/divergence.h"
#include "kernels/elementwise_config.h"

namespace ligerdsl::kernels {

// The tiles decide the order of the loss's sum.
struct DivergenceConfig : ElementwiseConfig {
  int tiles = 1;   // of blocks side by side that a program takes, one after the other
  int stages = 1;  // tiles in flight: the one at work and those on their way

  template <class V>
  void visit(V&& v) {
    v("rows", rows, powers_of_two(1, 4096), Bits::batch);
    v("num_warps", num_warps, powers_of_two(1, 32), Bits::batch);
    v("vectors", vectors, choices({0, 1, 2, 3, 4, 5, 6, 7, 8}), Bits::batch);
    v("tiles", tiles, powers_of_two(1, 64), Bits::batch);
    v("stages", stages, choices({1, 2, 3, 4}), Bits::same);
  }
};

using DivergenceKernel = ConfiguredKernel<DivergenceOptions, DivergenceConfig>;
extern const DivergenceKernel divergence_kernel;

}  // namespace ligerdsl::kernels
