#include "kernels/core/elementwise_schedule.h"
#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_vector_add_desc_t& d) {
  return plan_of(context, vector_add::info(), d,
                 configured(context, kernels::vector_add_kernel, kernels::VectorAddOptions{dtype_of(d.dtype)}),
                 {.rows = size_of_call(vector_add::dim_N)});
}

}  // namespace ligerdsl::lib
