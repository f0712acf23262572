// The schedules of PolyNorm.
#pragma once

#include "kernels/config.h"
#include "kernels/poly_norm.h"
#include "kernels/row_config.h"

namespace ligerdsl::kernels {

// The rows of a tile decide the order of the parameters' sums.
struct PolyNormBackwardConfig : RowConfig {
  template <class V>
  void visit(V&& v) {
    RowConfig::visit(v, Bits::batch);
  }
};

using PolyNormForward = ConfiguredKernel<PolyNormOptions, RowConfig>;
extern const PolyNormForward poly_norm_forward_kernel;
using PolyNormBackward = ConfiguredKernel<PolyNormOptions, PolyNormBackwardConfig>;
extern const PolyNormBackward poly_norm_backward_kernel;

}  // namespace ligerdsl::kernels
