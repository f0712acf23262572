#include <algorithm>
#include <span>

#include "kernels/core/aligned_rows.h"
#include "kernels/core/record.h"
#include "kernels/norm/fused_add_norm.h"
#include "kernels/norm/layer_norm.h"

namespace ligerdsl::kernels {
namespace {

// Returns the number of arrays whose rows are read twice if a tile does not hold whole rows.
int64_t streams_of(const LayerNormOptions& o) {
  return o.residual ? 2 : 1;
}

// Returns the columns of the widest row held in registers. A CTA with a wider row would occupy a
// whole SM.
int64_t widest_whole(const Machine& machine, DType type) {
  if (!machine.is_gpu()) return kResidentWidth;
  return type == f32 ? 16384 : 20480;
}

// Returns the block width, of two choices, that leaves less of the last block empty.
int64_t block_of(int64_t cols) {
  constexpr int64_t kOther = kRowBlock / 4 * 5;
  return round_up(cols, kOther) < round_up(cols, kRowBlock) ? kOther : kRowBlock;
}

// Returns the number of CTAs per SM if clusters share rows. It is three if shared memory also holds
// weight and bias next to two rows, which is faster than five CTAs that load weight and bias from
// the caches. Otherwise it is five. With a residual it is four instead of five, because two rows
// take more registers (not measured).
int sharing_ctas(const Machine& machine, const LayerNormOptions& o) {
  constexpr int64_t kCtas = 3, kSharers = 8;
  const int64_t kept =
      2 * o.cols * (streams_of(o) * size_of(o.type) + size_of(o.weight_type)) / kSharers;
  return kCtas * kept <= machine.shared_for_rows() ? kCtas : o.residual ? 4 : 5;
}

// Minimum CTAs per SM, by warps and by vectors per thread. The first matching rule applies. On
// Hopper, fewer registers per thread cost less time than fewer CTAs per SM.
struct FloorRule {
  int least_warps = 0;
  int64_t least_held = 0;
  int min_ctas_per_sm;
};
constexpr FloorRule kFloors[] = {
    {.least_warps = 32, .min_ctas_per_sm = 1},
    {.least_warps = 16, .min_ctas_per_sm = 2},  // 64 registers are enough for four vectors
    {.least_warps = 8, .least_held = 5, .min_ctas_per_sm = 3},  // 80 registers are enough for seven
    {.least_warps = 8, .min_ctas_per_sm = 4},
    {.min_ctas_per_sm = 0},
};
// Rules with a residual, by vectors of f32, because the sum is f32. They give the most CTAs without
// spills.
constexpr FloorRule kFloorsWithResidual[] = {
    {.least_warps = 32, .min_ctas_per_sm = 1},
    {.least_warps = 16, .least_held = 5, .min_ctas_per_sm = 1},
    {.least_warps = 16, .min_ctas_per_sm = 2},  // 64 registers
    {.least_warps = 8, .least_held = 8, .min_ctas_per_sm = 1},
    {.least_warps = 8, .least_held = 5, .min_ctas_per_sm = 3},  // 80 registers
    {.least_warps = 8, .min_ctas_per_sm = 4},
    {.min_ctas_per_sm = 0},
};

int floor_of(std::span<const FloorRule> rules, int warps, int64_t held) {
  return std::find_if(rules.begin(), rules.end(),
                      [&](const FloorRule& rule) {
                        return rule.least_warps <= warps && rule.least_held <= held;
                      })
      ->min_ctas_per_sm;
}

// Returns the minimum CTAs per SM for ragged rows. Shifting the weight and the bias takes
// registers.
int ragged_ctas(int num_warps) {
  constexpr int kWarpsWith128Registers = 16;
  return std::max(kWarpsWith128Registers / num_warps, 1);
}

RowConfig row_heuristic(const Machine& machine, const LayerNormOptions& o) {
  const int64_t cols =
      tile_columns(machine, o.type, o.cols, whole_rows(machine, o.type, o.cols, 4));
  if (cols > widest_whole(machine, o.type)) {
    if (machine.is_gpu() && streams_of(o) * o.cols * size_of(o.type) >= kSharedRow) {
      const RowConfig sharers{
          .num_warps = 4, .vectors = 4, .min_ctas_per_sm = sharing_ctas(machine, o)};
      if (const auto shared = rows_in_cluster(machine, o.type, o.cols, sharers, streams_of(o)))
        return *shared;
    }
    return rows_in_blocks(o.type, block_of(o.cols), o.type == f32 ? 2 : 4);
  }
  const int64_t widened = size_of(f32) / size_of(o.type);
  RowConfig config = whole_rows(machine, o.type, cols, o.residual ? 4 / widened : 4);
  if (config.rows > 1) return config;
  const int64_t held = config.held(o.type, cols);
  if (cols != o.cols) {
    config.min_ctas_per_sm = ragged_ctas(config.num_warps);
    return config;
  }
  config.min_ctas_per_sm = o.residual
                               ? floor_of(kFloorsWithResidual, config.num_warps, held * widened)
                               : floor_of(kFloors, config.num_warps, held);
  return config;
}

// Returns true if programs can loop over rows.
bool can_loop_over_rows(const Machine& machine, const LayerNormOptions& o,
                        const RowConfig& config) {
  return config.whole() && has_aligned_blocks(machine, o.type, o.cols, config);
}

// Returns a schedule in which programs loop over rows if rows are ragged, so that a program shifts
// weight and bias once.
LayerNormForwardConfig heuristic(const Machine& machine, const LayerNormOptions& o) {
  LayerNormForwardConfig config{row_heuristic(machine, o)};
  if (can_loop_over_rows(machine, o, config)) config.programs_per_sm = config.min_ctas_per_sm;
  return config;
}

std::string valid(const Machine& machine, const LayerNormOptions& o,
                  const LayerNormForwardConfig& config) {
  if (const std::string reason =
          refused(machine, o.type, tile_columns(machine, o.type, o.cols, config), config);
      !reason.empty())
    return reason;
  return config.keep == Keep::cluster ? refused_lanes(config) : "";
}

const char* name_of(const LayerNormOptions& o) {
  return o.residual ? fused_add_layer_norm_forward_kernel.name : layer_norm_forward_kernel.name;
}

Operation build(const Machine& machine, const LayerNormOptions& o,
                const LayerNormForwardConfig& config) {
  LayerNormMeta meta{o};
  meta.looped = !config.whole();
  meta.rows = config.rows;
  meta.block = config.columns(o.type, tile_columns(machine, o.type, o.cols, config));
  meta.aligned_blocks = has_aligned_blocks(machine, o.type, o.cols, config);
  meta.lanes = lanes_of_rows(machine, o.type, meta.rows, meta.block, config);
  Launch launch = config.launch();
  if (config.programs_per_sm > 0 && can_loop_over_rows(machine, o, config)) {
    meta.loops_over_rows = true;
    meta.stages = 2;
    meta.row_period = row_period(o.type, o.cols);
    const Size programs(round_up(int64_t{machine.sms} * config.programs_per_sm, meta.row_period));
    launch.grid = {min(Size::rows() * programs, programs)};  // no programs without rows
  }
  return operation_of(record_step(name_of(o), o.type, &layer_norm_forward, meta, std::move(launch),
                                  schedule_of(config)));
}

Cost cost(const LayerNormOptions& o, int64_t rows) {
  const double row = static_cast<double>(2 * streams_of(o) * o.cols * size_of(o.type)) +
                     4 * (int{o.with_mean} + int{o.with_rstd});
  const int parameters = o.without_bias ? 1 : 2;
  return {row * static_cast<double>(rows) +
          static_cast<double>(parameters * o.cols * size_of(o.weight_type))};
}

}  // namespace

BlockLanes lanes_of_rows(const Machine& machine, DType type, int64_t rows, int64_t block,
                         const RowConfig& config) {
  if (!machine.is_gpu()) {
    const int64_t fold = rows == 1 && block % 1024 == 0 ? 8 : 1;
    return {.fold = fold, .lanes = block / fold};
  }
  BlockLanes lanes = block_lanes(machine, type, block, config.num_warps, config.num_ctas);
  if (rows == 1) return lanes;
  return {.lanes = lanes.fold * lanes.lanes, .run = lanes.run};
}

const LayerNormForward layer_norm_forward_kernel{
    "layer_norm_forward", "LayerNorm of rows", &valid, &heuristic, &build, &cost};

const LayerNormForward fused_add_layer_norm_forward_kernel =
    fused_add<LayerNormOptions, LayerNormForwardConfig, layer_norm_forward_kernel>(
        "fused_add_layer_norm_forward", "residual sum and its LayerNorm");

Operation layer_norm_forward(const Machine& machine, const LayerNormOptions& options) {
  return options.residual ? fused_add_layer_norm_forward_kernel(machine, options)
                          : layer_norm_forward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
