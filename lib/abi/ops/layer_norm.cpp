// Backward pass of LayerNorm with d_weight, d_bias or both.
#include "kernels/norm/layer_norm.h"

#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

void adjust(const ligerdsl_layer_norm_backward_desc_t& d, kernels::LayerNormOptions& options,
            OperationPlan::Bindings&) {
  set_wanted_gradients(d, &options);
}

void adjust(const ligerdsl_fused_add_layer_norm_backward_desc_t& d,
            kernels::LayerNormOptions& options, OperationPlan::Bindings&) {
  set_wanted_gradients(d, &options);
}

}  // namespace ligerdsl::lib
