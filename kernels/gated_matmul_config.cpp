#include "kernels/gated_matmul_config.h"

#include <algorithm>

#include "kernels/matmul_config.h"
#include "kernels/record.h"

namespace ligerdsl::kernels {
namespace {

// One product of so many columns.
MatmulOptions product_of(const GatedMatmulOptions& o, int64_t cols) {
  return {.factors = Factors::nt,
          .cols = cols,
          .width = o.width,
          .type = o.type,
          .c_type = o.type,
          .most_rows = o.most_rows};
}

// Both products side by side: their sums and the tiles of a turn take what those of one product of all columns take.
MatmulOptions both_of(const GatedMatmulOptions& o) {
  return product_of(o, 2 * o.cols);
}

MatmulConfig product_config(const GatedMatmulConfig& config, int products) {
  return {.tile_m = config.tile_m,
          .tile_n = products * config.tile_n,
          .tile_k = config.tile_k,
          .stages = config.stages,
          .num_warps = config.num_warps,
          .group = config.group,
          .persistent = config.persistent,
          .tensor_copies = config.tensor_copies,
          .tensor_stores = config.tensor_stores};
}

// Programs of few rows share no tile: what is behind the sums needs all of them. Results by tensor copies: 65,536 rows of 2048 to 2 x 8192
// took 6.40 to 6.58 ms for 6.62 to 6.75 by 16-byte stores, 6.62 to 6.72 for 6.69 to 6.79 with gate and up (an H100, in turns).
GatedMatmulConfig heuristic(const Machine& machine, const GatedMatmulOptions& o) {
  const MatmulConfig both = matmul_kernel.heuristic(machine, both_of(o));
  return {.tile_m = both.tile_m,
          .tile_n = std::max(both.tile_n / 2, 16),
          .tile_k = both.tile_k,
          .stages = both.stages,
          .num_warps = both.num_warps,
          .group = both.group,
          .persistent = both.persistent,
          .tensor_copies = both.tensor_copies,
          .tensor_stores = both.persistent};
}

std::string valid(const Machine& machine, const GatedMatmulOptions& o, const GatedMatmulConfig& config) {
  std::string reason = matmul_kernel.valid(machine, both_of(o), product_config(config, 2));
  return reason.empty() ? matmul_kernel.valid(machine, product_of(o, o.cols), product_config(config, 1)) : reason;
}

Operation build(const Machine& machine, const GatedMatmulOptions& o, const GatedMatmulConfig& config) {
  const GatedMatmulMeta meta{matmul_meta(product_of(o, o.cols), product_config(config, 1)), o.activation,
                             o.stores_products};
  const Size tiles = ceil_div(Size::rows(), config.tile_m) * ceil_div(o.cols, config.tile_n);
  const Size programs = config.persistent ? min(tiles, Size(machine.sms)) : tiles;
  return {
      .steps = {record_step("gated_matmul", o.type, &gated_matmul, meta, library_launch(programs, config.num_warps))}};
}

Cost cost(const GatedMatmulOptions& o, int64_t rows) {
  const auto m = static_cast<double>(rows), k = static_cast<double>(o.width), f = static_cast<double>(o.cols);
  return {(m * k + 2 * f * k + m * f * (o.stores_products ? 3 : 1)) * size_of(o.type)};
}

}  // namespace

std::vector<int64_t> few_rows(const Machine& machine, const GatedMatmulOptions& o) {
  return few_rows(machine, both_of(o));
}

const GatedMatmul gated_matmul_kernel{
    "gated_matmul", "gate and up projections with their activation", &valid, &heuristic, &build, &cost};

Operation gated_matmul(const Machine& machine, const GatedMatmulOptions& options) {
  return gated_matmul_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
