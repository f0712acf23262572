// Terms of label smoothing in the gradients of an lm_head whose logits are not stored
// (kernels/fused_linear/linear_smoothing.h).
#pragma once

#include <optional>
#include <vector>

#include "kernels/fused_linear/linear_smoothing.h"
#include "lib/abi/fused_linear/linear_plan.h"
#include "lib/abi/fused_linear/views.h"

namespace ligerdsl::lib::head {

class HeadSmoothing {
 public:
  HeadSmoothing(Context& context, const Desc& d, const kernels::CrossEntropyOptions& options,
                DType head_type);

  int64_t parts() const { return parts_; }

  // Computes smoothing.class_factor, and smoothing.weight_sums if d_x is wanted. Call it once per
  // call, with the whole weight in block.weight_given.
  void sum_weight(const Call& call, const LinearLayout& layout, Views* views) const;
  // Computes smoothing.x_sums of a chunk from chunk.x and smoothing.of_rows.
  void sum_x(const Call& call, const Views& views) const;
  void add_to_bias(const Call& call, const Views& views) const;

  void add_launchers(std::vector<const Launcher*>* all) const;

 private:
  int64_t classes_, cols_, parts_;
  std::optional<KernelStep> class_factors_, weight_sums_, finish_weight_, x_sums_, finish_x_, bias_;
};

}  // namespace ligerdsl::lib::head
