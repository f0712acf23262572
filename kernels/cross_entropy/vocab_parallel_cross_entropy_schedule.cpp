#include "kernels/core/record.h"
#include "kernels/cross_entropy/vocab_parallel_cross_entropy.h"

namespace ligerdsl::kernels {
namespace {

// Returns the options of an equivalent one-pass cross-entropy. These kernels reuse its schedules.
CrossEntropyOptions one_pass(const VocabParallelPartialsOptions& o) {
  return {.classes = o.classes,
          .type = o.type,
          .label_type = o.label_type,
          .reduction = Reduction::none,
          .smoothing = o.smoothing,
          .with_loss = false};
}

CrossEntropyOptions one_pass(const VocabParallelCrossEntropyOptions& o) {
  return {.classes = o.classes,
          .type = o.type,
          .label_type = o.label_type,
          .reduction = o.reduction,
          .smoothing = o.smoothing,
          .with_loss = o.with_loss,
          .loss_type = o.loss_type,
          .with_d_loss = o.with_d_loss,
          .d_loss_type = o.d_loss_type};
}

CrossEntropyConfig heuristic(const Machine& machine, const VocabParallelPartialsOptions& o) {
  CrossEntropyConfig config = one_row_per_tile(machine, one_pass(o));
  // With smoothing and four vectors, a thread needs more registers, so six CTAs per SM would spill.
  if (o.smoothing && config.min_ctas_per_sm > 0) config.vectors = 2, config.min_ctas_per_sm = 8;
  return config;
}

// Returns a schedule with many bytes in flight per CTA, because rows are read once. On an H200 in
// bf16, rows of 8192 columns are faster in blocks, and rows of 16032 columns in registers.
CrossEntropyConfig heuristic(const Machine& machine, const VocabParallelCrossEntropyOptions& o) {
  if (machine.is_gpu() && size_of(o.type) == 2 && o.classes % vector_width(o.type) == 0) {
    if (o.classes > 8192 && o.classes <= 16384)
      return {RowConfig{.num_warps = 4, .min_ctas_per_sm = 5}};
    if (o.classes > 4096 && o.classes <= 8192)
      return {RowConfig{.keep = Keep::shared, .num_warps = 2, .vectors = 4}};
  }
  return one_row_per_tile(machine, one_pass(o));
}

template <class Options>
std::string valid(const Machine& machine, const Options& o, const CrossEntropyConfig& config) {
  if (config.keep == Keep::cluster)
    return "keep=cluster is only for kernels that read rows twice; use keep=shared";
  if (config.rows != 1)
    return "rows: expected 1, got " + std::to_string(config.rows) + "; use rows=1";
  return cross_entropy_kernel.valid(machine, one_pass(o), config);
}

template <class Options>
VocabParallelMeta meta_of(const Machine& machine, const Options& o,
                          const CrossEntropyConfig& config) {
  return {cross_entropy_meta(machine, one_pass(o), config)};
}

Operation build_partials(const Machine& machine, const VocabParallelPartialsOptions& o,
                         const CrossEntropyConfig& config) {
  return operation_of(record_step(vocab_parallel_partials_kernel.name, o.type,
                                  &vocab_parallel_partials, meta_of(machine, o, config),
                                  config.launch(machine)));
}

Cost cost_of_partials(const VocabParallelPartialsOptions& o, int64_t rows) {
  return {static_cast<double>(o.classes * size_of(o.type)) * static_cast<double>(rows)};
}

// Without a gradient a row has only a few values, so one warp per row is the only configuration.
CrossEntropyConfig loss_alone(const Machine& machine) {
  CrossEntropyConfig config{RowConfig{.num_warps = 1}};
  if (machine.is_gpu()) config.programs_per_sm = CrossEntropyConfig::kProgramsOfShortRows;
  return config;
}

CrossEntropyConfig heuristic_of_loss(const Machine& machine,
                                     const VocabParallelCrossEntropyOptions& o) {
  return o.with_gradient ? heuristic(machine, o) : loss_alone(machine);
}

std::string valid_loss(const Machine& machine, const VocabParallelCrossEntropyOptions& o,
                       const CrossEntropyConfig& config) {
  if (o.with_gradient) return valid(machine, o, config);
  const std::string only = config_text(meta_fields(loss_alone(machine)));
  if (config_text(meta_fields(config)) == only) return "";
  return "without a gradient the kernel has only one configuration; use " + only;
}

Operation build_loss(const Machine& machine, const VocabParallelCrossEntropyOptions& o,
                     const CrossEntropyConfig& config) {
  VocabParallelMeta meta = meta_of(machine, o, config);
  meta.with_gradient = o.with_gradient;
  meta.without_logits = !o.with_gradient;
  meta.shard_smoothing = o.smoothing && o.shard_smoothing;
  return with_totals(meta,
                     record_step(vocab_parallel_cross_entropy_kernel.name, o.type,
                                 &vocab_parallel_cross_entropy, meta, config.launch(machine)));
}

Cost cost_of_loss(const VocabParallelCrossEntropyOptions& o, int64_t rows) {
  return {static_cast<double>((o.with_gradient ? 2 : 0) * o.classes * size_of(o.type)) *
          static_cast<double>(rows)};
}

}  // namespace

const VocabParallelPartials vocab_parallel_partials_kernel{
    "vocab_parallel_cross_entropy_partials",
    "statistics of rows of a shard of logits",
    &valid,
    &heuristic,
    &build_partials,
    &cost_of_partials};
const VocabParallelCrossEntropy vocab_parallel_cross_entropy_kernel{
    "vocab_parallel_cross_entropy",
    "cross-entropy of rows from the statistics of all shards, and the gradient of one shard",
    &valid_loss,
    &heuristic_of_loss,
    &build_loss,
    &cost_of_loss};

Operation vocab_parallel_partials(const Machine& machine,
                                  const VocabParallelPartialsOptions& options) {
  return vocab_parallel_partials_kernel(machine, options);
}

Operation vocab_parallel_cross_entropy(const Machine& machine,
                                       const VocabParallelCrossEntropyOptions& options) {
  return vocab_parallel_cross_entropy_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
