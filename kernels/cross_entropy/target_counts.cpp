#include "kernels/cross_entropy/target_counts.h"

#include "kernels/core/record.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/cross_entropy_totals.h"

namespace ligerdsl::kernels {

namespace {

CrossEntropyMeta meta_of(const TargetCountsOptions& options) {
  CrossEntropyMeta meta;
  meta.label_type = options.label_type;
  meta.has_weight = options.has_weight;
  meta.classes = options.classes;
  meta.weight_type = options.weight_type;
  return meta;
}

}  // namespace

Operation target_counts(const Machine&, const TargetCountsOptions& options) {
  CrossEntropyMeta meta = meta_of(options);
  meta.totals_in_parts = true;
  Operation op;
  add_count(op, "target_counts", options.weight_type, meta);
  return op;
}

const FixedKernel<TargetCountsOptions> target_counts_kernel{
    "target_counts", "divisors of a mean over targets", &target_counts};

Step target_counts_step(const TargetCountsOptions& options) {
  return record_step("target_counts", options.weight_type, &cross_entropy_count, meta_of(options),
                     library_launch(1, 8));
}

}  // namespace ligerdsl::kernels
