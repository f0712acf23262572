#include "kernels/cross_entropy/target_counts.h"

#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_target_counts_desc_t& d) {
  if (d.with_class_weight && d.n_classes < 1) {
    fail(Status::invalid_shape, "`n_classes`: expected at least 1 with class_weight, got 0");
  }
  const kernels::TargetCountsOptions options{.label_type = dtype_of(d.label_dtype, DType::i64),
                                             .has_weight = d.with_class_weight != 0,
                                             .classes = d.n_classes,
                                             .weight_type = dtype_of(d.class_weight_dtype)};
  return plan_of(context, target_counts::info(), d, kernels::target_counts(context->machine(), options),
                 {.integers = {{"ignore_index", d.ignore_index}},
                  .renamed = {{"weight", "class_weight"}},
                  .rows = size_of_call(target_counts::dim_N)});
}

}  // namespace ligerdsl::lib
