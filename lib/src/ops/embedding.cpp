#include "kernels/embedding_config.h"
#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_embedding_forward_desc_t& d) {
  OperationPlan::Bindings bindings;
  bindings.rows = size_of_call(embedding_forward::dim_N);
  bindings.renamed = {{"table", "weight"}, {"position_table", "position_weight"}};
  if (d.with_position_weight && d.n_positions < 1)
    fail(Status::invalid_shape, "`n_positions`: expected at least 1 with position_weight, got 0");
  const kernels::EmbeddingOptions options{.cols = d.n_cols,
                                          .vocabulary = d.n_rows,
                                          .type = dtype_of(d.dtype),
                                          .index_type = dtype_of(d.index_dtype),
                                          .positions = d.with_position_weight ? d.n_positions : 0};
  return plan_of(context, embedding_forward::info(), d, configured(context, kernels::embedding_forward_kernel, options),
                 std::move(bindings));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_embedding_backward_desc_t& d) {
  check_gradient("d_weight_dtype", d.d_weight_dtype, d.dtype, d.accumulate);
  OperationPlan::Bindings bindings;
  bindings.rows = size_of_call(embedding_backward::dim_N);
  bindings.renamed = {{"d_table", "d_weight"}};
  const kernels::EmbeddingOptions options{.cols = d.n_cols,
                                          .vocabulary = d.n_rows,
                                          .type = dtype_of(d.dtype),
                                          .index_type = dtype_of(d.index_dtype),
                                          .d_table_type = dtype_of(d.d_weight_dtype),
                                          .accumulate = d.accumulate != 0};
  return plan_of(context, embedding_backward::info(), d,
                 configured(context, kernels::embedding_backward_kernel, options), std::move(bindings));
}

}  // namespace ligerdsl::lib
