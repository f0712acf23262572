#include <algorithm>

#include "kernels/core/record.h"
#include "kernels/matmul/grouped_matmul.h"
#include "kernels/matmul/matmul.h"

namespace ligerdsl::kernels {
namespace {

Transposes transposes_of(const GroupedMatmulOptions& o) {
  switch (o.transposes) {
    case GroupedTransposes::nt:
      return Transposes::nt;
    case GroupedTransposes::nn:
      return Transposes::nn;
    case GroupedTransposes::tn:
      break;
  }
  return Transposes::tn;
}

// Returns the options of one group's matmul.
MatmulOptions matmul_options(const GroupedMatmulOptions& o) {
  return {.transposes = transposes_of(o),
          .cols = o.cols,
          .width = o.width,
          .type = o.type,
          .c_type = o.c_type,
          .adds = o.adds};
}

MatmulConfig config_of(const GroupedMatmulConfig& config) {
  return {.tile_m = config.tile_m,
          .tile_n = config.tile_n,
          .tile_k = config.tile_k,
          .stages = config.stages,
          .num_warps = config.num_warps,
          .persistent = config.persistent,
          .tensor_copies = config.tensor_copies,
          .tensor_stores = config.tensor_stores};
}

// Returns a configuration like that of a matmul with many rows. On a CPU, tiles of nn and nt have
// fewer rows, because a group may have few. With nn and nt, programs are persistent if they load by
// TMA copies, which can continue from one tile to the next. With tn, they are persistent unless
// they load by TMA copies and add to c. Both choices are the faster ones on an H100.
GroupedMatmulConfig heuristic(const Machine& machine, const GroupedMatmulOptions& o) {
  MatmulOptions product = matmul_options(o);
  if (machine.is_gpu()) product.transposes = Transposes::nt;  // the rows of a group are not known
  const MatmulConfig one = one_cta_product(machine, product);
  GroupedMatmulConfig config{.tile_m = one.tile_m,
                             .tile_n = one.tile_n,
                             .tile_k = one.tile_k,
                             .stages = one.stages,
                             .num_warps = one.num_warps};
  if (!machine.is_gpu() && o.transposes != GroupedTransposes::tn) config.tile_m = 64;
  config.tensor_copies = one.tensor_copies && config.stages >= 3;
  const bool of_weights = o.transposes == GroupedTransposes::tn;
  config.persistent = machine.is_gpu() && config.stages > 1 &&
                      (of_weights ? !(config.tensor_copies && o.adds) : config.tensor_copies);
  // TMA stores are slightly faster than 16-byte stores (H100).
  config.tensor_stores = config.persistent && config.tensor_copies && !o.adds;
  return config;
}

std::string valid(const Machine& machine, const GroupedMatmulOptions& o,
                  const GroupedMatmulConfig& config) {
  if (std::string reason = matmul_kernel.valid(machine, matmul_options(o), config_of(config));
      !reason.empty())
    return reason;
  if (machine.is_gpu() &&
      config.min_ctas_per_sm * config.num_warps * program::kWarpThreads > machine.threads_per_sm)
    return "min_ctas_per_sm=" + std::to_string(config.min_ctas_per_sm) +
           " and num_warps=" + std::to_string(config.num_warps) + " need " +
           std::to_string(config.min_ctas_per_sm * config.num_warps * program::kWarpThreads) +
           " threads per SM, and an SM has at most " + std::to_string(machine.threads_per_sm) +
           "; use fewer CTAs or warps";
  return "";
}

Operation build(const Machine& machine, const GroupedMatmulOptions& o,
                const GroupedMatmulConfig& config) {
  GroupedMatmulMeta meta{matmul_meta(matmul_options(o), config_of(config)), o.experts,
                         o.index_type};
  const Size columns = ceil_div(o.cols, config.tile_n);
  const auto step = [&](const char* name, void (*kernel)(KernelBuilder&, const GroupedMatmulMeta&),
                        Size programs) {
    if (config.persistent)
      programs = min(programs, Size(machine.sms) * std::max(config.min_ctas_per_sm, 1));
    Launch launch = library_launch(programs, config.num_warps);
    launch.min_ctas_per_sm = config.min_ctas_per_sm;
    return record_step(name, o.type, kernel, meta, launch);
  };
  if (o.transposes == GroupedTransposes::tn)
    return {.steps = {step("grouped_matmul_tn", &grouped_matmul_tn,
                           columns * ceil_div(o.width, config.tile_m) * o.experts)}};
  // Upper bound of the row tiles: each section may end with a partial tile.
  const Size numbers = ceil_div(Size::rows(), config.tile_m) + o.experts + 2;
  Operation operation{.steps = {step("grouped_matmul", &grouped_matmul, numbers * columns)}};
  if (!config.persistent) return operation;
  meta.persistent = false;  // one program per section
  operation.steps.insert(operation.steps.begin(),
                         record_step("grouped_matmul_tiles", o.type, &grouped_matmul_tiles, meta,
                                     library_launch(o.experts + 2, 4)));
  operation.workspace = {{.name = "tiles", .dtype = DType::i64, .shape = {numbers, 4}}};
  return operation;
}

Cost cost(const GroupedMatmulOptions& o, int64_t rows) {
  const auto t = static_cast<double>(rows), k = static_cast<double>(o.width),
             n = static_cast<double>(o.cols), weights = static_cast<double>(o.experts) * k * n;
  const double c = o.transposes == GroupedTransposes::tn ? weights : t * n;
  const double b = o.transposes == GroupedTransposes::tn ? t * n : weights;
  return {(t * k + b) * size_of(o.type) + c * size_of(o.c_type) * (o.adds ? 2 : 1)};
}

}  // namespace

const GroupedMatmul grouped_matmul_kernel{
    "grouped_matmul", "matmuls of groups of rows with one matrix per group",
    &valid,           &heuristic,
    &build,           &cost};

Operation grouped_matmul(const Machine& machine, const GroupedMatmulOptions& options) {
  return grouped_matmul_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
