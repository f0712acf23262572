// Activations without a gate, y = f(x): GELU in two forms, SiLU, ReLU and ReLU squared.
#pragma once

#include "kernels/core/activation_function.h"
#include "kernels/core/config.h"
#include "kernels/core/elementwise_schedule.h"
#include "kernels/core/launch.h"
#include "ligerdsl/dsl.h"

namespace ligerdsl::kernels {

struct ActivationOptions {
  int64_t cols = 4096;  // row width F
  DType type = f32;
  Activation kind = Activation::gelu_tanh;
  bool accumulate = false;  // backward: d_x += ...

  template <class V>
  void visit(V&& v) {
    v("cols", cols);
    v("type", type);
    v("kind", kind, {"gelu_tanh", "gelu_erf", "silu", "relu", "relu_squared"});
    v("accumulate", accumulate);
  }
};

struct ActivationMeta : ActivationOptions {
  int64_t rows = 1;
  int64_t block = 1024;  // columns of a tile
};

// Arguments: y, x [n, F] type. y may be exactly x.
void activation_forward(KernelBuilder& k, const ActivationMeta& m);

// Arguments: d_x, d_y, x [n, F] type. d_x may be exactly d_y or x, unless it accumulates.
void activation_backward(KernelBuilder& k, const ActivationMeta& m);

// Rows: rows of x.
Operation activation_forward(const Machine& machine, const ActivationOptions& options);
Operation activation_backward(const Machine& machine, const ActivationOptions& options);

using ActivationKernel = ConfiguredKernel<ActivationOptions, ElementwiseConfig>;
extern const ActivationKernel activation_forward_kernel, activation_backward_kernel;

}  // namespace ligerdsl::kernels
