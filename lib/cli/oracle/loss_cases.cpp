#include "lib/cli/oracle/loss_cases.h"

namespace ligerdsl::cli {

namespace {

oracle::Reduce reduce_of(const Call& c) {
  const int reduction = c.option("reduction", LIGERDSL_REDUCTION_MEAN);
  return reduction == LIGERDSL_REDUCTION_NONE  ? oracle::Reduce::none
         : reduction == LIGERDSL_REDUCTION_SUM ? oracle::Reduce::sum
                                               : oracle::Reduce::mean;
}

}  // namespace

oracle::CrossEntropyCase cross_entropy_case(const Call& c) {
  return {.n = c.size("N"),
          .classes = c.size("V"),
          .ignore_index = static_cast<int64_t>(c.number("ignore_index")),
          .smoothing = c.number("label_smoothing"),
          .lse_square = c.number("lse_square_scale"),
          .softcap = c.number("softcap"),
          .weight = c["class_weight"],
          .reduction = reduce_of(c),
          .upstream = c.has("d_loss") ? c["d_loss"] : Values{1.0},
          .temperature = c.number("temperature"),
          .d_entropy = c["d_entropy"]};
}

oracle::VocabParallelCase vocab_parallel_case(const Call& c) {
  const auto integer = [&](const char* name) { return static_cast<int64_t>(c.number(name)); };
  const int64_t end = integer("first_class") + c.size("V"), total = integer("total_classes");
  return {.n = c.size("N"),
          .classes = c.size("V"),
          .first_class = integer("first_class"),
          .total_classes = total == 0 ? end : total,
          .ignore_index = integer("ignore_index"),
          .smoothing = c.number("label_smoothing", c.number("with_smoothing")),
          .shard_smoothing = c.flag("shard_smoothing"),
          .smooth_others = c.flag("smooth_others"),
          .shard = integer("shard"),
          .reduction = reduce_of(c),
          .upstream = c.has("d_loss") ? c["d_loss"] : Values{1.0}};
}

oracle::DivergenceCase divergence_case(const Call& c, oracle::DivergenceKind kind) {
  const int reduction = c.option("reduction", LIGERDSL_REDUCTION_BATCHMEAN);
  oracle::DivergenceCase which{.kind = kind,
                               .n = c.size("N"),
                               .cols = c.size("V"),
                               .reduction = reduction == LIGERDSL_REDUCTION_NONE  ? oracle::DivergenceReduce::none
                                            : reduction == LIGERDSL_REDUCTION_SUM ? oracle::DivergenceReduce::sum
                                            : reduction == LIGERDSL_REDUCTION_MEAN
                                                ? oracle::DivergenceReduce::mean
                                                : oracle::DivergenceReduce::batchmean,
                               .beta = c.number("beta"),
                               .eps = c.number("eps"),
                               .ignore_index = static_cast<int64_t>(c.number("ignore_index"))};
  if (c.has("labels")) which.labels = c.integers("labels");
  if (c.has("d_loss")) which.upstream = c["d_loss"];
  return which;
}

}  // namespace ligerdsl::cli
