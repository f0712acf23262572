#include <algorithm>

#include "kernels/core/record.h"
#include "kernels/matmul/gated_matmul.h"
#include "kernels/matmul/matmul.h"

namespace ligerdsl::kernels {
namespace {

// Returns the options of one of the two matmuls.
template <class Options>
MatmulOptions each_of(const Options& o) {
  return {.transposes = Transposes::nt,
          .cols = o.cols,
          .width = o.width,
          .type = o.type,
          .c_type = o.type,
          .most_rows = o.most_rows};
}

// Returns the options of one matmul with 2 F columns. Its tile needs the registers and shared
// memory of the tiles of both matmuls.
template <class Options>
MatmulOptions both_of(const Options& o) {
  MatmulOptions both = each_of(o);
  both.cols *= 2;
  return both;
}

MatmulConfig matmul_config(const GatedMatmulConfig& config, int matmuls) {
  return {.tile_m = config.tile_m,
          .tile_n = matmuls * config.tile_n,
          .tile_k = config.tile_k,
          .stages = config.stages,
          .num_warps = config.num_warps,
          .group = config.group,
          .persistent = config.persistent,
          .tensor_copies = config.tensor_copies,
          .tensor_stores = config.tensor_stores};
}

// Returns the largest tile_n. In the backward, the accurate tanh of gelu_tanh needs registers in
// addition to gate, up and d_out, so tile_n = 128 would cause spills.
int most_cols(const Machine&, const GatedMatmulOptions&) {
  return 128;
}
int most_cols(const Machine& machine, const GatedMatmulBackwardOptions& o) {
  return machine.is_gpu() && o.activation == Activation::gelu_tanh && o.type != DType::f32 ? 64
                                                                                           : 128;
}

// Returns a configuration without splits, because the epilogue needs complete accumulators. Results
// of persistent programs are stored by TMA copies, which are faster than 16-byte stores on an H100.
template <class Options>
GatedMatmulConfig heuristic(const Machine& machine, const Options& o) {
  const MatmulConfig both = one_cta_product(machine, both_of(o));
  return {.tile_m = both.tile_m,
          .tile_n = std::clamp(both.tile_n / 2, 16, most_cols(machine, o)),
          .tile_k = both.tile_k,
          .stages = both.stages,
          .num_warps = both.num_warps,
          .group = both.group,
          .persistent = both.persistent,
          .tensor_copies = both.tensor_copies,
          .tensor_stores = both.persistent};
}

template <class Options>
std::string valid(const Machine& machine, const Options& o, const GatedMatmulConfig& config) {
  std::string reason = matmul_kernel.valid(machine, both_of(o), matmul_config(config, 2));
  return reason.empty() ? matmul_kernel.valid(machine, each_of(o), matmul_config(config, 1))
                        : reason;
}

Launch launch_of(const Machine& machine, const GatedMatmulConfig& config, int64_t cols) {
  const Size tiles = ceil_div(Size::rows(), config.tile_m) * ceil_div(cols, config.tile_n);
  return library_launch(config.persistent ? min(tiles, Size(machine.sms)) : tiles,
                        config.num_warps);
}

Operation build(const Machine& machine, const GatedMatmulOptions& o,
                const GatedMatmulConfig& config) {
  const GatedMatmulMeta meta{matmul_meta(each_of(o), matmul_config(config, 1)), o.activation,
                             o.stores_products};
  return {.steps = {record_step("gated_matmul", o.type, &gated_matmul, meta,
                                launch_of(machine, config, o.cols))}};
}

Operation build_backward(const Machine& machine, const GatedMatmulBackwardOptions& o,
                         const GatedMatmulConfig& config) {
  const GatedMatmulBackwardMeta meta{matmul_meta(each_of(o), matmul_config(config, 1)),
                                     o.activation, o.stores_out};
  return {.steps = {record_step("gated_matmul_backward", o.type, &gated_matmul_backward, meta,
                                launch_of(machine, config, o.cols))}};
}

// Returns the bytes of x, both weights, and `matrices` matrices [M, F].
template <class Options>
Cost cost_of(const Options& o, int64_t rows, int matrices) {
  const auto m = static_cast<double>(rows), k = static_cast<double>(o.width),
             f = static_cast<double>(o.cols);
  return {(m * k + 2 * f * k + m * f * matrices) * size_of(o.type)};
}
Cost cost(const GatedMatmulOptions& o, int64_t rows) {
  return cost_of(o, rows, o.stores_products ? 3 : 1);
}
Cost backward_cost(const GatedMatmulBackwardOptions& o, int64_t rows) {
  return cost_of(o, rows, o.stores_out ? 4 : 3);
}

}  // namespace

std::vector<int64_t> few_rows(const Machine& machine, const GatedMatmulOptions& o) {
  return few_rows(machine, both_of(o));
}
std::vector<int64_t> few_rows(const Machine& machine, const GatedMatmulBackwardOptions& o) {
  return few_rows(machine, both_of(o));
}

const GatedMatmul gated_matmul_kernel{
    "gated_matmul", "gate and up projections with their activation", &valid, &heuristic, &build,
    &cost};
const GatedMatmulBackward gated_matmul_backward_kernel{
    "gated_matmul_backward",
    "gradients of gate and up, which are recomputed",
    &valid,
    &heuristic,
    &build_backward,
    &backward_cost};

Operation gated_matmul(const Machine& machine, const GatedMatmulOptions& options) {
  return gated_matmul_kernel(machine, options);
}
Operation gated_matmul_backward(const Machine& machine, const GatedMatmulBackwardOptions& options) {
  return gated_matmul_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
