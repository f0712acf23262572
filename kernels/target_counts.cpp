#include "kernels/target_counts.h"

#include "kernels/cross_entropy.h"
#include "kernels/record.h"

namespace ligerdsl::kernels {

Operation target_counts(const Machine&, const TargetCountsOptions& options) {
  CrossEntropyMeta meta;
  meta.label_type = options.label_type;
  meta.has_weight = options.has_weight;
  meta.classes = options.classes;
  meta.weight_type = options.weight_type;
  return {
      .steps = {record_step("target_counts", options.weight_type, &cross_entropy_count, meta, library_launch(1, 8))}};
}

}  // namespace ligerdsl::kernels
