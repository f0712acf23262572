// Gate and up projections with their activation, and their gradients.
#include "kernels/matmul/gated_matmul.h"

#include "lib/abi/ops/halves.h"
#include "lib/abi/ops/product_plan.h"

namespace ligerdsl::lib {

namespace {

// Returns views of the gate's rows and of up's rows of the weight.
std::vector<OperationPlan::Bindings::Derived> weights_of(int weight, int64_t n_cols,
                                                         int64_t n_inner) {
  return {half_of("gate_weight", "weight", weight, 0, 0, {n_cols, n_inner}),
          half_of("up_weight", "weight", weight, 1, 0, {n_cols, n_inner})};
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_gated_matmul_nt_desc_t& d) {
  namespace op = gated_matmul_nt;
  const kernels::GatedMatmulOptions options{
      .cols = d.n_cols,
      .width = d.n_inner,
      .type = dtype_of(d.dtype),
      .activation = static_cast<kernels::Activation>(d.activation),
      .stores_products = d.with_gate_up != 0};
  OperationPlan::Bindings bindings;
  bindings.views = weights_of(op::k_weight, d.n_cols, d.n_inner);
  for (const auto& [name, which] : {std::pair{"gate", 0}, {"up", 1}})
    bindings.views.push_back(half_row(name, "gate_up", op::k_gate_up, which, d.n_cols));
  return plan_of_product(context, op::info(), d, kernels::gated_matmul_kernel, options,
                         std::move(bindings), op::dim_M);
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_gated_matmul_nt_backward_desc_t& d) {
  namespace op = gated_matmul_nt_backward;
  const kernels::GatedMatmulBackwardOptions options{
      .cols = d.n_cols,
      .width = d.n_inner,
      .type = dtype_of(d.dtype),
      .activation = static_cast<kernels::Activation>(d.activation),
      .stores_out = d.with_out != 0};
  OperationPlan::Bindings bindings;
  bindings.views = weights_of(op::k_weight, d.n_cols, d.n_inner);
  for (const auto& [name, which] : {std::pair{"d_gate", 0}, {"d_up", 1}})
    bindings.views.push_back(half_row(name, "d_gate_up", op::k_d_gate_up, which, d.n_cols));
  return plan_of_product(context, op::info(), d, kernels::gated_matmul_backward_kernel, options,
                         std::move(bindings), op::dim_M);
}

}  // namespace ligerdsl::lib
