#include <algorithm>
#include <bit>

#include "kernels/core/record.h"
#include "kernels/norm/modulated_rms_norm.h"
#include "kernels/norm/norm_backward.h"
#include "kernels/reduce/reduce_partials.h"

namespace ligerdsl::kernels {
namespace {

constexpr int kForwardRegisters = 80;
constexpr int64_t kLongBytes = 16384;  // bytes of a row
// Most columns of 16-bit elements for which four warps need at most 64 registers per thread, and
// most columns for which one warp is enough.
constexpr int64_t kLooseColumns = 3072, kWarpColumns = 1024;

// Starts from RMSNorm's schedule with a residual, because scale and shift take the same number of
// registers as a residual.
RmsNormForwardConfig heuristic_forward(const Machine& machine, const ModulatedRmsNormOptions& o) {
  RmsNormOptions rows = o;
  rows.residual = true;
  RmsNormForwardConfig config = rms_norm_forward_kernel.heuristic(machine, rows);
  config.early_weight = false;
  // On an H200, 80 registers per thread are faster than the 90 that the assembler chooses.
  if (machine.is_gpu() && config.whole() && config.num_warps >= 4)
    config.min_ctas_per_sm =
        machine.threads_with(kForwardRegisters) / (program::kWarpThreads * config.num_warps);
  // With 80 registers, only one CTA with a row of 16 KB fits on an SM. In f32, four CTAs per SM are
  // faster. In bf16, eight vectors per thread are faster (H200).
  if (machine.is_gpu() && config.whole() && tile_width(o.cols) * size_of(o.type) == kLongBytes) {
    config.early_weight = size_of(o.type) == 4;  // in bf16 slightly slower (H100)
    if (size_of(o.type) == 2) config.num_warps = warps_for(tile_width(o.cols), o.type, 8);
    config.min_ctas_per_sm = machine.threads_with(size_of(o.type) == 2 ? 128 : 32) /
                             (program::kWarpThreads * config.num_warps);
  }
  // On an H100, rows of up to kLooseColumns are faster with 64 registers per thread than with 80.
  // Rows of more than kWarpColumns are faster with two warps than with one.
  if (machine.is_gpu() && config.whole() && size_of(o.type) == 2 && config.rows == 1) {
    const bool narrow = size_of(o.scale_type) == 2 &&
                        (!o.has_weight || size_of(o.weight_type) == 2);  // f32: spills
    if (config.num_warps == 4 && tile_width(o.cols) <= kLooseColumns && narrow)
      config.min_ctas_per_sm =
          machine.threads_with(64) / (program::kWarpThreads * config.num_warps);
    if (config.num_warps == 1 && tile_width(o.cols) > kWarpColumns) config.num_warps = 2;
  }
  if (config.rows == 1) return config;
  config.rows = 1;
  config.num_warps = warps_for(tile_width(o.cols), o.type, 2);
  config.min_ctas_per_sm = 0;
  return config;
}

std::string valid_forward(const Machine& machine, const ModulatedRmsNormOptions& o,
                          const RmsNormForwardConfig& config) {
  if (config.rows != 1)
    return "rows: expected 1, because rows may have different modulations, got " +
           std::to_string(config.rows) + "; use rows=1";
  return rms_norm_forward_kernel.valid(machine, o, config);
}

Operation build_forward(const Machine&, const ModulatedRmsNormOptions& o,
                        const RmsNormForwardConfig& config) {
  RmsNormMeta meta{o};
  meta.looped = !config.whole();
  meta.rows = config.rows;
  meta.block = config.columns(o.type, o.cols);
  meta.early_weight = config.early_weight;
  return operation_of(record_step(modulated_rms_norm_forward_kernel.name, o.type, &rms_norm_forward,
                                  meta, config.launch(), schedule_of(config)));
}

double modulation_bytes(const ModulatedRmsNormOptions& o, int arrays, DType type) {
  return static_cast<double>(arrays * o.cols * size_of(type)) * static_cast<double>(o.modulations);
}

Cost cost_forward(const ModulatedRmsNormOptions& o, int64_t rows) {
  return {rms_norm_forward_kernel.cost(o, rows).bytes +
          modulation_bytes(o, o.has_shift ? 2 : 1, o.scale_type)};
}

constexpr int kRegisters = 128;  // registers per thread, with partial sums
constexpr int64_t kVectors = 2;  // vectors of a row per thread
constexpr int64_t kMostVectors =
    4;  // the same in the largest cluster, and for short rows of 16-bit elements
constexpr int64_t kNarrow = 512, kShort = 4096;  // columns
constexpr int64_t kMostOnCpu = 16384;  // most columns whose partial sums stay in a core's caches
constexpr int64_t kColumnsOnCpu = 1024;

// Returns the schedule with by=columns: each program has a block of columns.
ModulatedRmsNormBackwardConfig by_columns(const Machine& machine,
                                          const ModulatedRmsNormOptions& o) {
  ModulatedRmsNormBackwardConfig config{
      .by = BackwardBy::columns, .vectors = 2, .programs_per_sm = 4};
  config.num_warps = machine.is_gpu() ? 4 : warps_for(kColumnsOnCpu, o.type, config.vectors);
  if (!machine.is_gpu()) config.stages = 1;
  return config;
}

ModulatedRmsNormBackwardConfig heuristic_backward(const Machine& machine,
                                                  const ModulatedRmsNormOptions& o) {
  const int64_t width = tile_width(o.cols);
  if (!machine.is_gpu()) {
    if (width > kMostOnCpu) return by_columns(machine, o);
    return {.num_warps = warps_for(width, o.type, kVectors, 16), .stages = 1};
  }
  const int64_t part = machine.threads_with(kRegisters) * vector_width(o.type);
  if (width > part * kMostVectors * machine.max_cluster) return by_columns(machine, o);
  ModulatedRmsNormBackwardConfig config{.stages = 3};
  // For these widths, kMostVectors vectors per thread are faster than half of them with twice the
  // threads (H200).
  if (width > kNarrow && width <= kShort && size_of(o.type) == 2) {
    // With padded tiles, threads have whole vectors. Half the number of programs is enough, which
    // halves the partial sums. On an H100 this is faster than tiles without padding.
    if (width > kShort / 4 && !std::has_single_bit(static_cast<uint64_t>(width)) &&
        o.cols % vector_width(o.type) == 0) {
      const bool long_rows = width > kShort / 2;
      config.padded = true;
      config.num_warps = long_rows ? 16 : 4;
      config.stages = long_rows ? 2 : 3;
      config.programs_per_sm = config.min_ctas_per_sm = long_rows ? 2 : 4;
      // A program with several modulations has a third sum, for which 64 registers per thread are
      // too few: 112 bytes would spill (sm_90a).
      if (long_rows && o.modulations >= machine.sms * config.programs_per_sm) {
        config.num_warps = 4;
        config.stages = 3;
        config.min_ctas_per_sm = 0;
      }
      return config;
    }
    config.num_warps = warps_for(width, o.type, kMostVectors);
    config.programs_per_sm = std::clamp(8 / config.num_warps, 1, 4);
    return config;
  }
  // On an H100, clusters of two CTAs with two rows per iteration are faster than CTAs with a whole
  // row each.
  if (width == 2 * kShort && size_of(o.type) == 2 && machine.max_cluster >= 2) {
    config.num_ctas = config.rows_per_iteration = config.stages = 2;
    config.num_warps = 16;
    return config;
  }
  while (width > part * kVectors * config.num_ctas && config.num_ctas < machine.max_cluster)
    config.num_ctas *= 2;
  config.num_warps = warps_for(width / config.num_ctas, o.type, kVectors, 16);
  // With short rows, more programs keep the same number of loads in flight.
  config.programs_per_sm = std::clamp(16 / config.num_warps, 1, 8);
  return config;
}

int64_t block_of(const ModulatedRmsNormOptions& o, const ModulatedRmsNormBackwardConfig& config) {
  if (config.by == BackwardBy::rows)
    return config.padded ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(o.cols)))
                         : tile_width(o.cols);
  return program::kWarpThreads * config.num_warps * vector_width(o.type) * config.vectors;
}

std::string valid_backward(const Machine& machine, const ModulatedRmsNormOptions& o,
                           const ModulatedRmsNormBackwardConfig& config) {
  if (config.by == BackwardBy::columns) {
    if (config.vectors == 0)
      return "by=columns requires vectors of 1 or more, got 0; set vectors, or use by=rows";
    if (config.num_ctas != 1)
      return "by=columns requires num_ctas=1, got " + std::to_string(config.num_ctas) +
             "; use num_ctas=1, or by=rows";
    if (config.padded) return "by=columns requires padded=false; use padded=false, or by=rows";
    const int64_t block = block_of(o, config);
    if (block >= o.cols)
      return "a block of " + std::to_string(block) +
             " columns holds the whole row; use fewer vectors or warps, or by=rows";
    return "";
  }
  if (config.vectors != 0)
    return "by=rows requires vectors=0, got " + std::to_string(config.vectors) +
           "; use vectors=0, or by=columns";
  if (config.num_ctas > machine.max_cluster)
    return "num_ctas: expected at most " + std::to_string(machine.max_cluster) +
           " on this machine, got " + std::to_string(config.num_ctas) + "; use a smaller num_ctas";
  if (config.padded && block_of(o, config) == tile_width(o.cols))
    return "a tile of " + std::to_string(tile_width(o.cols)) +
           " columns needs no padding; use padded=false";
  const int64_t threads = program::kWarpThreads * config.num_warps * config.num_ctas;
  const int64_t vectors = block_of(o, config) / vector_width(o.type);
  if (threads > program::kWarpThreads && vectors < threads)
    return "vectors per row: expected at least " + std::to_string(threads) + ", got " +
           std::to_string(vectors) + "; use fewer warps or CTAs";
  if (vectors > 2 * kMostVectors * threads &&
      (machine.is_gpu() || block_of(o, config) > kMostOnCpu))
    return "vectors per thread: expected at most " + std::to_string(2 * kMostVectors) + ", got " +
           std::to_string(ceil_div(vectors, threads)) + "; use more warps or CTAs, or by=columns";
  return "";
}

// Returns the step that computes d_x if no program holds a whole row.
Step d_x_step(const ModulatedRmsNormOptions& o) {
  RmsNormMeta meta{o};
  meta.want_d_weight = false;
  meta.looped = true;
  meta.block = std::min(kRowBlock, tile_width(o.cols));
  return record_step("modulated_rms_norm_d_x", o.type, &rms_norm_backward, meta,
                     library_launch(Size::rows(), warps_for(meta.block, o.type, kVectors)));
}

// Returns the reductions that compute the parameter gradients, from at most `parts` partial sums
// per modulation. The partial sums of a modulation are contiguous. If `weight_of_products` is true,
// d_weight and d_scale use the same partial sums.
std::vector<PartialSums> sums_of(const ModulatedRmsNormOptions& o, bool weight_of_products,
                                 int64_t parts) {
  std::vector<PartialSums> sums;
  if (o.want_d_weight) {
    sums.push_back({.out = "d_weight",
                    .partials = weight_of_products ? "scale_partials" : "weight_partials",
                    .type = o.d_weight_type,
                    .cols = o.cols,
                    .accumulate = o.accumulate});
    if (weight_of_products) {
      sums.back().groups = o.modulations;
      sums.back().most = parts;
      sums.back().modulation = "scale";
      sums.back().modulation_type = o.scale_type;
    }
  }
  const auto add = [&](const char* out, const char* partials) {
    sums.push_back({.out = out,
                    .partials = partials,
                    .type = o.d_scale_type,
                    .cols = o.cols,
                    .accumulate = o.accumulate,
                    .groups = o.modulations,
                    .most = parts});
  };
  if (o.want_d_scale) {
    add("d_scale", "scale_partials");
    if (o.has_weight) {
      sums.back().weight = "weight";
      sums.back().weight_type = o.weight_type;
      if (o.has_offset) sums.back().weight_offset = "offset";
    }
  }
  if (o.want_d_shift) add("d_shift", "shift_partials");
  return sums;
}

Operation build_backward(const Machine& machine, const ModulatedRmsNormOptions& o,
                         const ModulatedRmsNormBackwardConfig& config) {
  const bool by_rows = config.by == BackwardBy::rows;
  ModulatedRmsNormMeta meta{o};
  meta.block = block_of(o, config);
  meta.stages = config.stages;
  meta.rows_per_iteration = config.rows_per_iteration;
  meta.without_d_x = o.without_d_x || !by_rows;
  const int64_t blocks = by_rows ? 1 : ceil_div(o.cols, meta.block);
  const int64_t together =
      machine.is_gpu() ? machine.sms / config.num_ctas * config.programs_per_sm : 64;
  const int64_t programs =
      std::max<int64_t>(together / blocks, 1);  // programs per block of columns
  meta.shared = o.modulations < programs;
  const bool weight_of_products = meta.shared && o.want_d_weight && o.want_d_scale;
  if (weight_of_products) meta.want_d_weight = false;
  // Parts of a modulation's rows: at least one, whose partial sums are 0 if there are no rows.
  PartialCount parts;
  if (meta.shared)
    parts = partial_count(ceil_div(Size::rows(), o.modulations), programs / o.modulations);
  const Size each = max(parts.of_rows, 1), most = max(parts.most, 1);
  const Size all = meta.shared ? each * o.modulations : Size(programs);

  Operation op;
  if (by_rows || o.want_d_weight || o.want_modulation()) {  // first, because d_x may overwrite d_y
    Launch launch = library_launch(all * blocks, config.num_warps);
    launch.num_ctas = config.num_ctas;
    launch.min_ctas_per_sm = config.min_ctas_per_sm;
    const char* name =
        by_rows ? modulated_rms_norm_backward_kernel.name : "modulated_rms_norm_sums";
    op.steps.push_back(
        record_step(name, o.type, &modulated_rms_norm_backward, meta, std::move(launch)));
  }
  if (!by_rows && !o.without_d_x) op.steps.push_back(d_x_step(o));
  const std::vector<PartialSums> sums = sums_of(o, weight_of_products, parts.limit);
  if (sums.empty()) return op;
  op.steps.push_back(reduce_partials(machine, sums));
  if (meta.want_d_weight) {
    const Size room = meta.shared ? most * o.modulations : Size(programs);
    op.workspace.push_back(
        {.name = "weight_partials", .dtype = f32, .shape = {all, o.cols}, .room = {room, o.cols}});
  }
  const auto add_parts = [&](const char* name) {
    op.workspace.push_back({.name = name,
                            .dtype = f32,
                            .shape = {o.modulations, each, o.cols},
                            .room = {o.modulations, most, o.cols}});
  };
  if (o.want_d_scale) add_parts("scale_partials");
  if (o.want_d_shift) add_parts("shift_partials");
  return op;
}

Cost cost_backward(const ModulatedRmsNormOptions& o, int64_t rows) {
  const double row = static_cast<double>((o.without_d_x ? 2 : 3) * o.cols * size_of(o.type) + 4);
  const int gradients = int{o.want_d_scale} + int{o.want_d_shift};
  return {row * static_cast<double>(rows) + modulation_bytes(o, 1, o.scale_type) +
          modulation_bytes(o, gradients, o.d_scale_type)};
}

}  // namespace

const ModulatedRmsNormForward modulated_rms_norm_forward_kernel{
    "modulated_rms_norm_forward",
    "RMSNorm with a scale and a shift per segment of rows",
    &valid_forward,
    &heuristic_forward,
    &build_forward,
    &cost_forward};
const ModulatedRmsNormBackward modulated_rms_norm_backward_kernel{"modulated_rms_norm_backward",
                                                                  "gradient of modulated_rms_norm",
                                                                  &valid_backward,
                                                                  &heuristic_backward,
                                                                  &build_backward,
                                                                  &cost_backward};

Operation modulated_rms_norm_forward(const Machine& machine,
                                     const ModulatedRmsNormOptions& options) {
  return modulated_rms_norm_forward_kernel(machine, options);
}

Operation modulated_rms_norm_backward(const Machine& machine,
                                      const ModulatedRmsNormOptions& options) {
  return modulated_rms_norm_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
