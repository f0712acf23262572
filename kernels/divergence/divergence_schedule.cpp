#include "kernels/core/record.h"
#include "kernels/cross_entropy/cross_entropy_totals.h"
#include "kernels/divergence/divergence.h"

namespace ligerdsl::kernels {
namespace {

// Columns per program. A program stores one partial loss, so large programs leave few to sum.
constexpr int64_t kColumnsOfProgram = 8192;

// Returns the number of 16-byte vectors per thread. On a GPU, jsd has fewer, because its arithmetic
// needs registers.
int64_t vectors_of(const Machine& machine, const DivergenceOptions& o) {
  if (!machine.is_gpu()) return 4;
  return o.kind == Divergence::jsd ? 1 : 2;
}

// Returns the schedule of wide rows, chosen by times on an H200 (4096 x 128256). In bf16, jsd is
// fastest with several tiles of one warp per program, and the other divergences with one tile of 16
// warps.
DivergenceConfig blocks(const Machine& machine, const DivergenceOptions& o) {
  DivergenceConfig config;
  config.vectors = static_cast<int>(vectors_of(machine, o));
  config.num_warps = !machine.is_gpu() ? 8 : o.kind == Divergence::jsd ? 1 : 16;
  if (o.kind == Divergence::jsd && machine.is_gpu())
    config.tiles = static_cast<int>(kColumnsOfProgram / config.columns(o.type, o.cols));
  // In f32, jsd is fastest with 2048 columns per program. kl without a gradient is fastest with two
  // tiles of four warps.
  if (!machine.is_gpu() || size_of(o.type) != 4 || size_of(o.target_type) != 4) return config;
  const bool reads_alone = !o.with_gradient && o.reduction != Reduction::none;
  if (o.kind == Divergence::jsd) config.vectors = 2, config.tiles = 8;
  if (o.kind == Divergence::kl && reads_alone)
    config.num_warps = 4, config.vectors = 4, config.tiles = 2;
  return config;
}

DivergenceConfig heuristic(const Machine& machine, const DivergenceOptions& o) {
  if (tile_width(o.cols) > kColumnsOfProgram) return blocks(machine, o);
  DivergenceConfig config;
  config.vectors = 0;
  while (config.rows * 2 * tile_width(o.cols) <= kColumnsOfProgram / 4) config.rows *= 2;
  config.num_warps =
      warps_for(config.rows * tile_width(o.cols), o.type, vectors_of(machine, o), 16);
  return config;
}

std::string valid(const Machine&, const DivergenceOptions& o, const DivergenceConfig& config) {
  if (config.vectors == 0 && config.tiles > 1)
    return "tiles=" + std::to_string(config.tiles) +
           " requires vectors of 1 or more, got 0; use tiles=1, or set vectors";
  if (config.tiles == 1 && config.stages > 1)
    return "stages=" + std::to_string(config.stages) +
           " requires tiles of 2 or more, got 1; use stages=1, or more tiles";
  if (config.rows > 1 && (config.vectors & (config.vectors - 1)) != 0)
    return "vectors: expected a power of two with rows=" + std::to_string(config.rows) + ", got " +
           std::to_string(config.vectors) + "; use vectors=1, 2, 4 or 8, or rows=1";
  return refused(o.type, o.cols, config);
}

Operation build(const Machine& machine, const DivergenceOptions& o,
                const DivergenceConfig& config) {
  DivergenceMeta meta{o};
  const TileShape tile = config.tile(o.type, o.cols);
  meta.rows = tile.rows;
  meta.block = tile.cols;
  meta.tiles = config.tiles;
  meta.stages = config.stages;
  meta.relative_log = !machine.is_gpu();
  const Size programs =
      ceil_div(Size::rows(), tile.rows) * ceil_div(o.cols, tile.cols * config.tiles);
  const Launch launch = library_launch(programs, config.num_warps);
  // Kernels of the family cross_entropy count the rows and sum the programs' results.
  CrossEntropyMeta rows;
  rows.label_type = o.label_type;
  rows.reduction = Reduction::sum;
  rows.loss_type = o.loss_type;
  rows.totals_in_parts = true;
  rows.block = 2048;
  Operation op;
  if (needs_counts(o)) {
    op.workspace.push_back({.name = "counts", .dtype = f32, .shape = {4}});
    add_count(op, "divergence_count", o.type, rows);
  }
  op.steps.push_back(record_step(divergence_kernel.name, o.type, &divergence, meta, launch));
  if (!o.with_loss || o.reduction == Reduction::none) return op;
  op.workspace.push_back({.name = "row_loss", .dtype = f32, .shape = {programs}});
  add_finish(op, "divergence_finish", o.type, rows, programs);
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
    "divergence", "KL, Jensen-Shannon or total variation of two tensors of rows",
    &valid,       &heuristic,
    &build,       &cost};

Operation divergence(const Machine& machine, const DivergenceOptions& options) {
  return divergence_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
