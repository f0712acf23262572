#include "kernels/modulated_rms_norm_config.h"

#include <algorithm>

#include "kernels/norm_backward.h"
#include "kernels/record.h"
#include "kernels/reduce_partials.h"

namespace ligerdsl::kernels {
namespace {

// Scale and shift take the registers that a residual does.
RmsNormForwardConfig heuristic_forward(const Machine& machine, const ModulatedRmsNormOptions& o) {
  RmsNormOptions rows = o;
  rows.residual = true;
  RmsNormForwardConfig config = rms_norm_forward_kernel.heuristic(machine, rows);
  config.early_weight = false;
  if (config.rows == 1) return config;
  config.rows = 1;
  config.num_warps = warps_for(tile_width(o.cols), o.type, 2);
  config.min_ctas_per_sm = 0;
  return config;
}

std::string valid_forward(const Machine& machine, const ModulatedRmsNormOptions& o,
                          const RmsNormForwardConfig& config) {
  if (config.rows != 1) return "rows of a tile may have different modulations; use rows=1";
  return rms_norm_forward_kernel.valid(machine, o, config);
}

Operation build_forward(const Machine&, const ModulatedRmsNormOptions& o, const RmsNormForwardConfig& config) {
  RmsNormMeta meta{o};
  meta.looped = !config.whole();
  meta.rows = config.rows;
  meta.block = config.columns(o.type, o.cols);
  meta.early_weight = config.early_weight;
  return operation_of(record_step(modulated_rms_norm_forward_kernel.name, o.type, &rms_norm_forward, meta,
                                  config.launch(), schedule_of(config)));
}

double modulation_bytes(const ModulatedRmsNormOptions& o, int arrays, DType type) {
  return static_cast<double>(arrays * o.cols * size_of(type)) * static_cast<double>(o.modulations);
}

Cost cost_forward(const ModulatedRmsNormOptions& o, int64_t rows) {
  return {rms_norm_forward_kernel.cost(o, rows).bytes + modulation_bytes(o, o.has_shift ? 2 : 1, o.scale_type)};
}

constexpr int kRegisters = 128;      // of a thread that works on a row beside partial sums
constexpr int64_t kVectors = 2;      // of a row that it has
constexpr int64_t kMostVectors = 4;  // of a long row
constexpr int64_t kHeld = 32;        // where no cluster shares it, and the rest is spilled

ModulatedRmsNormBackwardConfig heuristic_backward(const Machine& machine, const ModulatedRmsNormOptions& o) {
  const int64_t width = tile_width(o.cols);
  if (!machine.is_gpu()) return {.num_warps = warps_for(width, o.type, kVectors, 16), .stages = 1};
  ModulatedRmsNormBackwardConfig config;
  const int64_t most = machine.threads_with(kRegisters) * vector_width(o.type) * kMostVectors;
  while (width > most * config.num_ctas && config.num_ctas < machine.max_cluster) config.num_ctas *= 2;
  const int64_t held = width / (most / kMostVectors * config.num_ctas);
  config.num_warps = warps_for(width / config.num_ctas, o.type, kVectors, held > 2 * kMostVectors ? 32 : 16);
  // Short rows: more programs keep as many loads under way.
  config.programs_per_sm = std::clamp(16 / config.num_warps, 1, 8);
  return config;
}

std::string valid_backward(const Machine& machine, const ModulatedRmsNormOptions& o,
                           const ModulatedRmsNormBackwardConfig& config) {
  if (config.num_ctas > machine.max_cluster)
    return machine.max_cluster == 1 ? "there are no clusters of CTAs here; use num_ctas=1"
                                    : "there are clusters of at most " + std::to_string(machine.max_cluster) + " CTAs";
  const int64_t threads = program::kWarpThreads * config.num_warps * config.num_ctas;
  const int64_t vectors = tile_width(o.cols) / vector_width(o.type);
  if (threads > program::kWarpThreads && vectors < threads)
    return "a row of " + std::to_string(o.cols) + " elements leaves threads without any; use fewer warps or CTAs";
  if (machine.is_gpu() && vectors > kHeld * threads)
    return "a thread would hold " + std::to_string(ceil_div(vectors, threads)) + " vectors, at most " +
           std::to_string(kHeld) + " are possible; use more warps or CTAs";
  return "";
}

Step reduce_step(const Machine& machine, const ModulatedRmsNormOptions& o) {
  const TileShape tile = partials_tile(machine);
  ModulatedRmsNormMeta meta{o};
  meta.rows = tile.rows;
  meta.block = tile.cols;
  return record_step("modulated_rms_norm_reduce", o.d_scale_type, &modulated_rms_norm_reduce, meta,
                     library_launch(o.modulations * ceil_div(o.cols, tile.cols), tile.num_warps));
}

Operation build_backward(const Machine& machine, const ModulatedRmsNormOptions& o,
                         const ModulatedRmsNormBackwardConfig& config) {
  ModulatedRmsNormMeta meta{o};
  meta.block = tile_width(o.cols);
  meta.stages = config.stages;
  const int64_t programs =
      machine.is_gpu() ? std::max<int64_t>(machine.sms / config.num_ctas, 1) * config.programs_per_sm : 64;
  meta.shared = o.modulations < programs;
  // Parts of a modulation's rows.
  const PartialCount parts =
      meta.shared ? partial_count(ceil_div(Size::rows(), o.modulations), std::max<int64_t>(programs / o.modulations, 1))
                  : PartialCount{};
  // Without rows there are no sums.
  const PartialCount each{.of_rows = max(parts.of_rows, 1), .most = max(parts.most, 1)};
  const PartialCount all{.of_rows = meta.shared ? each.of_rows * o.modulations : Size(programs),
                         .most = meta.shared ? each.most * o.modulations : Size(programs)};
  Launch launch = library_launch(all.of_rows, config.num_warps);
  launch.num_ctas = config.num_ctas;
  Operation op = operation_of(record_step(modulated_rms_norm_backward_kernel.name, o.type, &modulated_rms_norm_backward,
                                          meta, std::move(launch)));
  const auto add = [&](const char* name, const Size& rows, const Size& most) {
    op.workspace.push_back({.name = name, .dtype = f32, .shape = {rows, o.cols}, .room = {most, o.cols}});
  };
  if (o.want_d_weight) {
    op.steps.push_back(
        reduce_partials(machine, "d_weight", o.d_weight_type, o.accumulate, o.cols, f32, "weight_partials"));
    add("weight_partials", all.of_rows, all.most);
  }
  if (!o.want_modulation()) return op;
  op.steps.push_back(reduce_step(machine, o));
  if (o.want_d_scale) add("scale_partials", each.of_rows * o.modulations, each.most * o.modulations);
  if (o.want_d_shift) add("shift_partials", each.of_rows * o.modulations, each.most * o.modulations);
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
    "RMSNorm with a scale and a shift of each stretch of rows",
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

Operation modulated_rms_norm_forward(const Machine& machine, const ModulatedRmsNormOptions& options) {
  return modulated_rms_norm_forward_kernel(machine, options);
}

Operation modulated_rms_norm_backward(const Machine& machine, const ModulatedRmsNormOptions& options) {
  return modulated_rms_norm_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
