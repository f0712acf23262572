// The schedules of kernels that work element by element.
#pragma once

#include <string>

#include "kernels/activation.h"
#include "kernels/adamw.h"
#include "kernels/bias_add.h"
#include "kernels/config.h"
#include "kernels/dropout.h"
#include "kernels/dyt.h"
#include "kernels/gated_activation.h"
#include "kernels/scale_rows.h"
#include "kernels/tile_shape.h"
#include "kernels/vector_add.h"
#include "program/gpu_arch.h"

namespace ligerdsl::kernels {

struct ElementwiseConfig {
  int rows = 1;  // of a tile
  int num_warps = 4;
  int vectors = 1;  // of 16 bytes that a thread has of a tile of blocks; 0: tiles are of whole rows

  int64_t columns(DType type, int64_t cols) const {
    return vectors == 0 ? tile_width(cols) : program::kWarpThreads * num_warps * vector_width(type) * vectors / rows;
  }
  TileShape tile(DType type, int64_t cols) const {
    return {.rows = rows, .cols = columns(type, cols), .num_warps = num_warps};
  }

  template <class V>
  void visit(V&& v) {
    v("rows", rows, powers_of_two(1, 4096), Bits::same);
    v("num_warps", num_warps, powers_of_two(1, 32), Bits::same);
    v("vectors", vectors, choices({0, 1, 2, 3, 4, 5, 6, 7, 8}), Bits::same);
  }
};

// In blocks that divide wide rows where that is possible (tile_shape.h).
ElementwiseConfig elementwise_config(const Machine& machine, DType type, int64_t cols, ElementwiseWork work = {});
// Why rows of so many elements cannot be taken so; empty: they can.
std::string refused(DType type, int64_t cols, const ElementwiseConfig& config);

struct VectorAddOptions {
  DType type = f32;

  template <class V>
  void visit(V&& v) {
    v("type", type);
  }
};

using VectorAdd = ConfiguredKernel<VectorAddOptions, ElementwiseConfig>;
extern const VectorAdd vector_add_kernel;

using Adamw = ConfiguredKernel<AdamwOptions, ElementwiseConfig>;
extern const Adamw adamw_kernel;  // vectors are those of the moments, which are f32

using ScaleRows = ConfiguredKernel<ScaleRowsOptions, ElementwiseConfig>;
extern const ScaleRows scale_rows_kernel;

using ActivationKernel = ConfiguredKernel<ActivationOptions, ElementwiseConfig>;
extern const ActivationKernel activation_forward_kernel, activation_backward_kernel;

using DropoutKernel = ConfiguredKernel<DropoutOptions, ElementwiseConfig>;
extern const DropoutKernel dropout_forward_kernel, dropout_backward_kernel;

using BiasAddForward = ConfiguredKernel<BiasAddOptions, ElementwiseConfig>;
extern const BiasAddForward bias_add_forward_kernel;

using DytForward = ConfiguredKernel<DytOptions, ElementwiseConfig>;
extern const DytForward dyt_forward_kernel;

using GatedKernel = ConfiguredKernel<GatedOptions, ElementwiseConfig>;
extern const GatedKernel swiglu_forward_kernel, swiglu_backward_kernel, geglu_forward_kernel, geglu_backward_kernel;

}  // namespace ligerdsl::kernels
