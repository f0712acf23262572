#include "kernels/grouped_matmul_config.h"

#include <algorithm>

#include "kernels/matmul_config.h"
#include "kernels/record.h"

namespace ligerdsl::kernels {
namespace {

Factors factors_of(const GroupedMatmulOptions& o) {
  switch (o.factors) {
    case GroupedFactors::nt:
      return Factors::nt;
    case GroupedFactors::nn:
      return Factors::nn;
    case GroupedFactors::tn:
      break;
  }
  return Factors::tn;
}

// The product of one group, as one of two matrices.
MatmulOptions product_of(const GroupedMatmulOptions& o) {
  return {
      .factors = factors_of(o), .cols = o.cols, .width = o.width, .type = o.type, .c_type = o.c_type, .adds = o.adds};
}

MatmulConfig config_of(const GroupedMatmulConfig& config) {
  return {.tile_m = config.tile_m,
          .tile_n = config.tile_n,
          .tile_k = config.tile_k,
          .stages = config.stages,
          .num_warps = config.num_warps,
          .persistent = config.persistent,
          .tensor_copies = config.tensor_copies};
}

// As of two matrices of many rows; on a CPU with tiles of fewer rows, of which a group may have few. Before programs that go on
// from tile to tile loaded the next one's factors ahead, gradients of the matrices were faster by them: 65,536 rows of 128 groups
// took an H100 752 us so and 766 without (bf16, 1536x2048). Where tensor copies add to f32 they were not: 918 and 828 (2048x768; without
// tensor copies 880 and 1,403). Products of rows of groups, where a tile may be none, took 834 so and 685 without.
GroupedMatmulConfig heuristic(const Machine& machine, const GroupedMatmulOptions& o) {
  MatmulOptions product = product_of(o);
  if (machine.is_gpu()) product.factors = Factors::nt;  // of which no number of rows is known
  const MatmulConfig one = matmul_kernel.heuristic(machine, product);
  GroupedMatmulConfig config{.tile_m = one.tile_m,
                             .tile_n = one.tile_n,
                             .tile_k = one.tile_k,
                             .stages = one.stages,
                             .num_warps = one.num_warps};
  if (!machine.is_gpu() && o.factors != GroupedFactors::tn) config.tile_m = 64;
  config.tensor_copies = one.tensor_copies && config.stages >= 3;
  config.persistent = machine.is_gpu() && o.factors == GroupedFactors::tn && config.stages > 1 &&
                      !(config.tensor_copies && o.adds);
  return config;
}

std::string valid(const Machine& machine, const GroupedMatmulOptions& o, const GroupedMatmulConfig& config) {
  if (std::string reason = matmul_kernel.valid(machine, product_of(o), config_of(config)); !reason.empty())
    return reason;
  if (machine.is_gpu() && config.min_ctas_per_sm * config.num_warps * program::kWarpThreads > machine.threads_per_sm)
    return "an SM has no " + std::to_string(config.min_ctas_per_sm) + " times " + std::to_string(config.num_warps) +
           " warps; use fewer of either";
  return "";
}

Operation build(const Machine& machine, const GroupedMatmulOptions& o, const GroupedMatmulConfig& config) {
  GroupedMatmulMeta meta{matmul_meta(product_of(o), config_of(config)), o.experts, o.index_type};
  const bool of_weights = o.factors == GroupedFactors::tn;
  const Size columns = ceil_div(o.cols, config.tile_n);
  // Sections.tiles() and a number or two more.
  const Size rows = of_weights ? Size(ceil_div(o.width, config.tile_m)) * o.experts
                               : ceil_div(Size::rows(), config.tile_m) + o.experts + 2;
  Size programs = rows * columns;
  if (config.persistent) programs = min(programs, Size(machine.sms) * std::max(config.min_ctas_per_sm, 1));
  Launch launch = library_launch(programs, config.num_warps);
  launch.min_ctas_per_sm = config.min_ctas_per_sm;
  return {.steps = {of_weights ? record_step("grouped_matmul_tn", o.type, &grouped_matmul_tn, meta, launch)
                               : record_step("grouped_matmul", o.type, &grouped_matmul, meta, launch)}};
}

Cost cost(const GroupedMatmulOptions& o, int64_t rows) {
  const auto t = static_cast<double>(rows), k = static_cast<double>(o.width), n = static_cast<double>(o.cols),
             weights = static_cast<double>(o.experts) * k * n;
  const double c = o.factors == GroupedFactors::tn ? weights : t * n;
  const double b = o.factors == GroupedFactors::tn ? t * n : weights;
  return {(t * k + b) * size_of(o.type) + c * size_of(o.c_type) * (o.adds ? 2 : 1)};
}

}  // namespace

const GroupedMatmul grouped_matmul_kernel{
    "grouped_matmul", "products of groups of rows by a matrix of each", &valid, &heuristic, &build, &cost};

Operation grouped_matmul(const Machine& machine, const GroupedMatmulOptions& options) {
  return grouped_matmul_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
