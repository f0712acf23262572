// What label smoothing adds to the gradients of a head whose logits are not stored (kernels/fused_linear/linear_smoothing.h).
#pragma once

#include <optional>
#include <vector>

#include "kernels/fused_linear/linear_smoothing.h"
#include "lib/src/ops/head_views.h"
#include "lib/src/ops/linear_plan.h"

namespace ligerdsl::lib::head {

class HeadSmoothing {
 public:
  HeadSmoothing(Context& context, const Desc& d, const kernels::CrossEntropyOptions& options, DType head_type);

  int64_t parts() const { return parts_; }

  // Once a call, whose kWeightGiven is all of the weight: kClassFactor, and kWeightSums where d_x is wanted.
  void sum_weight(const Call& call, const LinearLayout& layout, Views* views) const;
  // Of a chunk whose kX and kSmooth are there: kXSums.
  void sum_x(const Call& call, const Views& views) const;
  void add_to_bias(const Call& call, const Views& views) const;

  void add_launchers(std::vector<const Launcher*>* all) const;

 private:
  int64_t classes_, cols_, parts_;
  std::optional<KernelStep> class_factors_, weight_sums_, finish_weight_, x_sums_, finish_x_, bias_;
};

}  // namespace ligerdsl::lib::head
