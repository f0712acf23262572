#include "kernels/elementwise/activation.h"

namespace ligerdsl::kernels {
namespace {

using namespace elementwise_rule;

template <int arrays>
ElementwiseConfig heuristic_activation(const Machine& machine, const ActivationOptions& o) {
  const bool much = o.kind == Activation::gelu_erf;
  return elementwise_config(
      machine, o.type, o.cols,
      {.arrays = arrays, .vectors = much ? work_vectors(machine, o.type) : 1});
}

template <const ActivationKernel& kernel, void (*program)(KernelBuilder&, const ActivationMeta&)>
Operation activation(const Machine&, const ActivationOptions& o, const ElementwiseConfig& config) {
  return by_tiles(kernel.name, program, ActivationMeta{o}, config);
}

Cost cost_of_gradient(const ActivationOptions& o, int64_t rows) {
  return o.accumulate ? cost<4>(o, rows) : cost<3>(o, rows);
}

}  // namespace

const ActivationKernel activation_forward_kernel{
    "activation_forward",
    "GELU, SiLU, ReLU or ReLU squared",
    &valid<ActivationOptions>,
    &heuristic_activation<2>,
    &activation<activation_forward_kernel, &activation_forward>,
    &cost<2, ActivationOptions>};

const ActivationKernel activation_backward_kernel{
    "activation_backward",
    "gradient of activation_forward",
    &valid<ActivationOptions>,
    &heuristic_activation<3>,
    &activation<activation_backward_kernel, &activation_backward>,
    &cost_of_gradient};

Operation activation_forward(const Machine& machine, const ActivationOptions& options) {
  return activation_forward_kernel(machine, options);
}

Operation activation_backward(const Machine& machine, const ActivationOptions& options) {
  return activation_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
