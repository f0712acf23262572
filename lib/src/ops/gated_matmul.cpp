// Gate and up projections with their activation.
#include "kernels/gated_matmul_config.h"
#include "lib/src/ops/halves.h"
#include "lib/src/ops/product_plan.h"

namespace ligerdsl::lib {

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_gated_matmul_nt_desc_t& d) {
  namespace op = gated_matmul_nt;
  const kernels::GatedMatmulOptions options{.cols = d.n_cols,
                                            .width = d.n_inner,
                                            .type = dtype_of(d.dtype),
                                            .activation = static_cast<kernels::Activation>(d.activation),
                                            .stores_products = d.with_gate_up != 0};
  const auto rows_of_weight = [&](const char* name, int which) {
    return half_of(name, "weight", op::k_weight, which, 0, {d.n_cols, d.n_inner});
  };
  OperationPlan::Bindings bindings;
  bindings.views = {rows_of_weight("gate_weight", 0), rows_of_weight("up_weight", 1),
                    half_row("gate", "gate_up", op::k_gate_up, 0, d.n_cols),
                    half_row("up", "gate_up", op::k_gate_up, 1, d.n_cols)};
  return plan_of_product(context, op::info(), d, kernels::gated_matmul_kernel, options, std::move(bindings), op::dim_M);
}

}  // namespace ligerdsl::lib
