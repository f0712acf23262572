#include "kernels/divergence_config.h"

#include "kernels/record.h"

namespace ligerdsl::kernels {
namespace {

// Of threads that have a row of short ones side by side, or on a CPU.
constexpr int64_t kVectors = 4;
constexpr int kWarps = 8;
// Programs on a GPU leave few numbers that one program is to add.
constexpr int64_t kColumnsOfProgram = 8192;

// Blocks of wide rows. An element of jsd takes as much work as its bytes, and registers for it.
DivergenceConfig blocks(const Machine& machine, const DivergenceOptions& o) {
  DivergenceConfig config;
  config.num_warps = kWarps;
  config.vectors = kVectors;
  if (!machine.is_gpu()) return config;
  config.num_warps = 4;
  config.vectors = o.kind == Divergence::jsd ? 1 : 2;
  config.tiles = static_cast<int>(kColumnsOfProgram / config.columns(o.type, o.cols));
  config.stages = 2;
  return config;
}

DivergenceConfig heuristic(const Machine& machine, const DivergenceOptions& o) {
  const int64_t widest = program::kWarpThreads * kWarps * vector_width(o.type) * kVectors;
  if (tile_width(o.cols) > widest) return blocks(machine, o);
  DivergenceConfig config;
  config.vectors = 0;
  while (config.rows * 2 * tile_width(o.cols) <= widest / 4) config.rows *= 2;
  config.num_warps = warps_for(config.rows * tile_width(o.cols), o.type, kVectors, kWarps);
  return config;
}

std::string valid(const Machine&, const DivergenceOptions& o, const DivergenceConfig& config) {
  if (config.vectors == 0 && config.tiles > 1) return "a tile holds whole rows; use tiles=1, or vectors of 1 or more";
  if (config.tiles == 1 && config.stages > 1) return "a program has one tile; use stages=1, or more tiles";
  return refused(o.type, o.cols, config);
}

Operation build(const Machine&, const DivergenceOptions& o, const DivergenceConfig& config) {
  DivergenceMeta meta{o};
  const TileShape tile = config.tile(o.type, o.cols);
  meta.rows = tile.rows;
  meta.block = tile.cols;
  meta.tiles = config.tiles;
  meta.stages = config.stages;
  const Size programs = ceil_div(Size::rows(), tile.rows) * ceil_div(o.cols, tile.cols * config.tiles);
  Launch launch = library_launch(programs, config.num_warps);
  launch.min_ctas_per_sm = config.min_ctas_per_sm;
  // The steps of one program are cross-entropy's.
  CrossEntropyMeta rows;
  rows.label_type = o.label_type;
  rows.reduction = Reduction::sum;
  rows.loss_type = o.loss_type;
  rows.block = 2048;
  Operation op;
  if (needs_counts(o)) {
    op.workspace.push_back({.name = "counts", .dtype = f32, .shape = {4}});
    op.steps.push_back(record_step("divergence_count", o.type, &cross_entropy_count, rows, library_launch(1, 8)));
  }
  op.steps.push_back(record_step(divergence_kernel.name, o.type, &divergence, meta, launch));
  if (!o.with_loss || o.reduction == Reduction::none) return op;
  op.workspace.push_back({.name = "row_loss", .dtype = f32, .shape = {programs}});
  op.steps.push_back(record_step("divergence_finish", o.type, &cross_entropy_finish, rows, library_launch(1, 8)));
  return op;
}

Cost cost(const DivergenceOptions& o, int64_t rows) {
  const bool each = o.reduction == Reduction::none;
  const int bytes = size_of(o.type) * (o.with_gradient ? 2 : 1) + size_of(o.target_type) +
                    (each && o.with_loss ? size_of(o.loss_type) : 0) +
                    (each && o.with_d_loss ? size_of(o.d_loss_type) : 0);
  return {static_cast<double>(o.cols) * static_cast<double>(rows) * bytes};
}

}  // namespace

bool needs_counts(const DivergenceOptions& o) {
  return o.has_labels && (o.reduction == Reduction::mean || o.reduction == Reduction::batchmean);
}

const DivergenceKernel divergence_kernel{
    "divergence", "KL, Jensen-Shannon or total variation of two tensors of rows", &valid, &heuristic, &build, &cost};

Operation divergence(const Machine& machine, const DivergenceOptions& options) {
  return divergence_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
