// Second matmul of an lm_head whose logits are not stored: it recomputes logits and stores their
// gradient, from the rows' lse.
#pragma once

#include <optional>
#include <vector>

#include "kernels/fused_linear/linear_cross_entropy_columns.h"
#include "lib/abi/fused_linear/weight.h"

namespace ligerdsl::lib::head {

class HeadGradients {
 public:
  // reports: the kernel reports labels that are out of range.
  HeadGradients(Context& context, const Desc& d, const kernels::LinearCrossEntropyOptions& options,
                bool reports);

  // Computes the logit of each row's label if token scaling needs it.
  void find_label_logits(Views* views, const Call& call) const;
  // Writes the gradient of the chunk's logits to v.chunk.logits. `first` is the chunk's first row
  // in the batch, and `first_column` the first class of these logits.
  void run(const Call& call, const LinearLayout& layout, const HeadWeight& weight, int64_t first,
           int64_t first_column, const Views& views) const;

  void add_launchers(std::vector<const Launcher*>* all) const;

 private:
  DType type_;
  kernels::MatmulConfig tiles_;
  std::optional<KernelStep> gradient_, label_logits_;
};

}  // namespace ligerdsl::lib::head
