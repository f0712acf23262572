#include "kernels/divergence_config.h"

#include "kernels/record.h"

namespace ligerdsl::kernels {
namespace {

constexpr int64_t kVectors = 4;  // of a thread: their loads are all under way before the first is computed with
constexpr int kWarps = 8;

// Tiles as large as registers hold, since each leaves a number to be added by one program; several rows where rows are
// short.
DivergenceConfig heuristic(const Machine&, const DivergenceOptions& o) {
  const int64_t widest = program::kWarpThreads * kWarps * vector_width(o.type) * kVectors;
  DivergenceConfig config;
  if (tile_width(o.cols) > widest) {
    config.num_warps = kWarps;
    config.vectors = kVectors;
    return config;
  }
  config.vectors = 0;
  while (config.rows * 2 * tile_width(o.cols) <= widest / 4) config.rows *= 2;
  config.num_warps = warps_for(config.rows * tile_width(o.cols), o.type, kVectors, kWarps);
  return config;
}

std::string valid(const Machine&, const DivergenceOptions& o, const DivergenceConfig& config) {
  return refused(o.type, o.cols, config);
}

Operation build(const Machine&, const DivergenceOptions& o, const DivergenceConfig& config) {
  DivergenceMeta meta{o};
  const TileShape tile = config.tile(o.type, o.cols);
  meta.rows = tile.rows;
  meta.block = tile.cols;
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
  op.steps.push_back(record_step(divergence_kernel.name, o.type, &divergence, meta, elementwise_launch(tile, o.cols)));
  if (!o.with_loss || o.reduction == Reduction::none) return op;
  op.workspace.push_back(
      {.name = "row_loss", .dtype = f32, .shape = {ceil_div(Size::rows(), tile.rows) * ceil_div(o.cols, tile.cols)}});
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
