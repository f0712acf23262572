// The second product of a head whose logits are not stored: their gradient, from the rows' log-sum-exps.
#pragma once

#include <optional>
#include <vector>

#include "kernels/fused_linear/linear_cross_entropy_columns.h"
#include "lib/src/fused_linear/weight.h"

namespace ligerdsl::lib::head {

class HeadGradients {
 public:
  // reports: labels that are no class.
  HeadGradients(Context& context, const Desc& d, const kernels::LinearCrossEntropyOptions& options, bool reports);

  // Of rows whose label's logits no one made.
  void find_label_logits(Views* views, const Call& call) const;
  // v.chunk.logits, of the rows from `first` of the batch on that are selected, and of the classes from first_column on, become
  // their gradient.
  void run(const Call& call, const LinearLayout& layout, const HeadWeight& weight, int64_t first, int64_t first_column,
           const Views& views) const;

  void add_launchers(std::vector<const Launcher*>* all) const;

 private:
  DType type_;
  kernels::MatmulConfig tiles_;
  std::optional<KernelStep> gradient_, label_logits_;
};

}  // namespace ligerdsl::lib::head
