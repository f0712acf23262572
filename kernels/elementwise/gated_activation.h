// Gated activations: f(gate) * up with f = SiLU (SwiGLU) or the tanh form of GELU (GeGLU).
#pragma once

#include <functional>
#include <optional>

#include "kernels/core/activation_function.h"
#include "kernels/core/config.h"
#include "kernels/core/elementwise_schedule.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct GatedOptions {
  int64_t cols = 4096;  // width F
  DType type = f32;

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("type", type);
  }
};

struct GatedMeta : GatedOptions {
  Activation activation = Activation::silu;  // or gelu_tanh
  int64_t rows = 1;
  int64_t block = 1024;  // columns of a tile
};

// Arguments: out, gate, up [n, F] type; silu also gate_multiplier, down_multiplier f32 scalars. If
// gate and up are the halves of one [n, 2F] tensor, the same kernel gets two views of that tensor.
void gated_forward(KernelBuilder& k, const GatedMeta& m);

// Arguments: d_gate, d_up, d_out, gate, up [n, F] type; silu also gate_multiplier, down_multiplier.
// d_gate may be exactly gate, d_up exactly up.
void gated_backward(KernelBuilder& k, const GatedMeta& m);

// Computes the gradients of f(u) up with u = gate_multiplier gate, given the upstream gradient
// d_out; all f32. gelu_tanh rounds intermediate results to `type`, as GeGLU does. Calls d_up and
// d_gate with the gradients of up and gate, each as soon as it is computed.
using StoreTile = std::function<void(const Tile&)>;
void gated_gradients(Activation activation, DType type, const Tile& u, const Tile& up,
                     const Tile& d_out, const std::optional<Scalar>& gate_multiplier,
                     const StoreTile& d_up, const StoreTile& d_gate);

// Rows: rows of out.
Operation swiglu_forward(const Machine& machine, const GatedOptions& options);
Operation swiglu_backward(const Machine& machine, const GatedOptions& options);
Operation geglu_forward(const Machine& machine, const GatedOptions& options);
Operation geglu_backward(const Machine& machine, const GatedOptions& options);

using GatedKernel = ConfiguredKernel<GatedOptions, ElementwiseConfig>;
extern const GatedKernel swiglu_forward_kernel, swiglu_backward_kernel, geglu_forward_kernel,
    geglu_backward_kernel;

}  // namespace ligerdsl::kernels
