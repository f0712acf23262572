#include "kernels/embedding/embedding.h"

#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

namespace {

void check_positions(bool given, int64_t positions, const char* tensor) {
  if (given && positions < 1)
    fail(Status::invalid_shape, std::string("`n_positions`: expected at least 1 with ") + tensor + ", got 0");
}

// Checks that a shard lies in the table; true if it is one.
template <class Desc>
bool is_shard(const Desc& d) {
  if (d.total_rows == 0) {
    if (d.first_row != 0)
      fail(Status::invalid_argument, "`first_row`: expected 0 without `total_rows`, got " +
                                         std::to_string(d.first_row) + "; pass the rows of the whole table");
    return false;
  }
  const int64_t end = d.first_row + d.n_rows;  // both are at most 2^52
  if (end > d.total_rows)
    fail(Status::invalid_argument,
         "`total_rows`: expected at least first_row + n_rows = " + std::to_string(d.first_row) + " + " +
             std::to_string(d.n_rows) + ", or 0 where weight is the whole table, got " + std::to_string(d.total_rows));
  return true;
}

void check_whole(bool shard, bool positions, const char* tensor) {
  if (shard && positions)
    fail(Status::invalid_argument,
         std::string("`total_rows`: expected 0 with ") + tensor + "; add positions once, to the sum over the shards");
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_embedding_forward_desc_t& d) {
  const bool shard = is_shard(d);
  check_whole(shard, d.with_position_weight != 0, "position_weight");
  OperationPlan::Bindings bindings;
  if (shard) bindings.integers = {{"first_row", d.first_row}, {"total_rows", d.total_rows}};
  bindings.rows = size_of_call(embedding_forward::dim_N);
  bindings.renamed = {{"table", "weight"}, {"position_table", "position_weight"}};
  check_positions(d.with_position_weight, d.n_positions, "position_weight");
  const kernels::EmbeddingOptions options{.cols = d.n_cols,
                                          .vocabulary = d.n_rows,
                                          .type = dtype_of(d.dtype),
                                          .index_type = dtype_of(d.index_dtype),
                                          .positions = d.with_position_weight ? d.n_positions : 0,
                                          .shard = shard};
  return plan_of(context, embedding_forward::info(), d, configured(context, kernels::embedding_forward_kernel, options),
                 std::move(bindings));
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_embedding_backward_desc_t& d) {
  check_gradient("d_weight_dtype", d.d_weight_dtype, d.dtype, d.accumulate);
  const bool positions = d.d_position_weight_dtype != 0;
  if (positions && d.accumulate_positions && d.d_position_weight_dtype != LIGERDSL_F32)
    fail(Status::invalid_dtype,
         std::string("`d_position_weight_dtype`: expected f32 with `accumulate_positions`, got ") +
             dtype_name(d.d_position_weight_dtype));
  check_gradient("d_position_weight_dtype", d.d_position_weight_dtype, d.dtype, 0);
  check_positions(positions, d.n_positions, "d_position_weight");
  const bool shard = is_shard(d);
  check_whole(shard, positions, "d_position_weight");
  OperationPlan::Bindings bindings;
  if (shard) bindings.integers = {{"first_row", d.first_row}};
  bindings.rows = size_of_call(embedding_backward::dim_N);
  bindings.renamed = {{"d_table", "d_weight"}, {"d_position_table", "d_position_weight"}};
  const kernels::EmbeddingOptions options{.cols = d.n_cols,
                                          .vocabulary = d.n_rows,
                                          .type = dtype_of(d.dtype),
                                          .index_type = dtype_of(d.index_dtype),
                                          .d_table_type = dtype_of(d.d_weight_dtype),
                                          .accumulate = d.accumulate != 0,
                                          .positions = positions ? d.n_positions : 0,
                                          .d_position_type = dtype_of(d.d_position_weight_dtype),
                                          .accumulate_positions = d.accumulate_positions != 0,
                                          .shard = shard};
  return plan_of(context, embedding_backward::info(), d,
                 configured(context, kernels::embedding_backward_kernel, options), std::move(bindings));
}

}  // namespace ligerdsl::lib
