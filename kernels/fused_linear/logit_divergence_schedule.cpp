#include "kernels/core/record.h"
#include "kernels/cross_entropy/cross_entropy_totals.h"
#include "kernels/fused_linear/logit_divergence.h"

namespace ligerdsl::kernels {
namespace {

constexpr int64_t kWidest = 8192;  // most columns of a row that one tile holds

// Returns a schedule with about two vectors per thread on a GPU.
RowConfig heuristic(const Machine& machine, const LogitDivergenceOptions& o) {
  const DType type = o.logits_type();
  if (tile_width(o.classes) <= kWidest)
    return {.num_warps = warps_for(tile_width(o.classes), type, 2, 16)};
  RowConfig config = rows_in_blocks(type, kRowBlock, machine.is_gpu() ? 2 : 4);
  config.num_warps = std::min(config.num_warps, 16);
  return config;
}

std::string valid(const Machine& machine, const LogitDivergenceOptions& o,
                  const RowConfig& config) {
  if (o.kind != Divergence::forward_kl && o.kind != Divergence::reverse_kl &&
      o.kind != Divergence::jsd)
    return std::string("kind: expected forward_kl, reverse_kl or jsd, got ") +
           (o.kind == Divergence::kl ? "kl" : "tvd");
  if (o.reduction == Reduction::none) return "reduction: expected sum, mean or batchmean, got none";
  if (config.rows != 1)
    return "rows: expected 1, got " + std::to_string(config.rows) + "; use rows=1";
  if (config.keep == Keep::cluster)
    return "logit_divergence does not support keep=cluster; use keep=shared";
  if (const std::string reason = refused_lanes(config); !reason.empty()) return reason;
  return refused(machine, o.logits_type(), o.classes, config);
}

Operation build(const Machine& machine, const LogitDivergenceOptions& o, const RowConfig& config) {
  LogitDivergenceMeta meta{o};
  meta.relative_log = !machine.is_gpu();
  meta.looped = !config.whole();
  meta.block = config.columns(o.logits_type(), o.classes);
  meta.lanes = meta.looped ? block_lanes(machine, o.logits_type(), meta.block, config.num_warps)
                           : BlockLanes{.lanes = meta.block};
  // Kernels of the family cross_entropy count the rows and sum the row losses.
  CrossEntropyMeta rows;
  rows.label_type = o.label_type;
  rows.reduction = Reduction::sum;
  rows.loss_type = o.loss_type;
  Operation op;
  if (needs_counts(o)) {
    op.workspace.push_back({.name = "counts", .dtype = f32, .shape = {4}});
    add_count(op, "logit_divergence_count", o.type, rows);
  }
  op.steps.push_back(
      record_step(logit_divergence_kernel.name, o.type, &logit_divergence, meta, config.launch()));
  if (!o.with_loss) return op;
  op.workspace.push_back({.name = "row_loss", .dtype = f32, .shape = {Size::rows()}});
  add_finish(op, "logit_divergence_finish", o.type, rows, Size::rows());
  return op;
}

Cost cost(const LogitDivergenceOptions& o, int64_t rows) {
  const int64_t of_class = 2 * size_of(o.logits_type()) + (o.with_gradient ? size_of(o.type) : 0);
  return {static_cast<double>(of_class * o.classes) * static_cast<double>(rows)};
}

}  // namespace

const LogitDivergence logit_divergence_kernel{
    "logit_divergence",
    "divergence of the softmaxes of two tensors of logits, with its gradient",
    &valid,
    &heuristic,
    &build,
    &cost};

Operation logit_divergence(const Machine& machine, const LogitDivergenceOptions& options) {
  return logit_divergence_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
