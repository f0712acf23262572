#include "kernels/elementwise/gated_activation.h"

namespace ligerdsl::kernels {
namespace {

using namespace elementwise_rule;

template <const GatedKernel& kernel, Activation activation,
          void (*program)(KernelBuilder&, const GatedMeta&)>
Operation gated(const Machine&, const GatedOptions& o, const ElementwiseConfig& config) {
  GatedMeta meta{o};
  meta.activation = activation;
  return by_tiles(kernel.name, program, meta, config);
}

}  // namespace

const GatedKernel swiglu_forward_kernel{
    "swiglu_forward",
    "silu(gate) * up",
    &valid<GatedOptions>,
    &heuristic<3, GatedOptions>,
    &gated<swiglu_forward_kernel, Activation::silu, &gated_forward>,
    &cost<3, GatedOptions>};

const GatedKernel swiglu_backward_kernel{
    "swiglu_backward",
    "gradient of swiglu",
    &valid<GatedOptions>,
    &heuristic<5, GatedOptions>,
    &gated<swiglu_backward_kernel, Activation::silu, &gated_backward>,
    &cost<5, GatedOptions>};

const GatedKernel geglu_forward_kernel{
    "geglu_forward",
    "gelu(gate) * up, tanh form",
    &valid<GatedOptions>,
    &heuristic<3, GatedOptions>,
    &gated<geglu_forward_kernel, Activation::gelu_tanh, &gated_forward>,
    &cost<3, GatedOptions>};

const GatedKernel geglu_backward_kernel{
    "geglu_backward",
    "gradient of geglu",
    &valid<GatedOptions>,
    &heuristic<5, GatedOptions>,
    &gated<geglu_backward_kernel, Activation::gelu_tanh, &gated_backward>,
    &cost<5, GatedOptions>};

Operation swiglu_forward(const Machine& machine, const GatedOptions& options) {
  return swiglu_forward_kernel(machine, options);
}

Operation swiglu_backward(const Machine& machine, const GatedOptions& options) {
  return swiglu_backward_kernel(machine, options);
}

Operation geglu_forward(const Machine& machine, const GatedOptions& options) {
  return geglu_forward_kernel(machine, options);
}

Operation geglu_backward(const Machine& machine, const GatedOptions& options) {
  return geglu_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
