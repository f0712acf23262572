// The schedules of divergences.
#pragma once

#include "kernels/divergence.h"
#include "kernels/elementwise_config.h"

namespace ligerdsl::kernels {

// The tiles decide the order of the loss's sum.
struct DivergenceConfig : ElementwiseConfig {
  template <class V>
  void visit(V&& v) {
    v("rows", rows, powers_of_two(1, 4096), Bits::batch);
    v("num_warps", num_warps, powers_of_two(1, 32), Bits::batch);
    v("vectors", vectors, choices({0, 1, 2, 3, 4, 5, 6, 7, 8}), Bits::batch);
  }
};

using DivergenceKernel = ConfiguredKernel<DivergenceOptions, DivergenceConfig>;
extern const DivergenceKernel divergence_kernel;

}  // namespace ligerdsl::kernels
