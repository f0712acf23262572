// Embeddings: plans with a second table for positions, and with a shard of a table.
#include "kernels/embedding/embedding.h"

#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

namespace {

// Returns true if the weight is a shard. Fails if it is not inside the table.
template <class Desc>
bool is_shard(const Desc& d) {
  if (d.total_rows == 0) {
    if (d.first_row != 0)
      fail(Status::invalid_argument, "`first_row`: expected 0 without `total_rows`, got " +
                                         std::to_string(d.first_row) +
                                         "; for a shard, set `total_rows` to the number of rows of "
                                         "the whole table");
    return false;
  }
  const int64_t end = d.first_row + d.n_rows;  // no overflow: both are at most 2^52
  if (end > d.total_rows)
    fail(Status::invalid_argument,
         "`total_rows`: expected at least first_row + n_rows = " + std::to_string(d.first_row) +
             " + " + std::to_string(d.n_rows) + ", or 0 if weight is the whole table, got " +
             std::to_string(d.total_rows));
  return true;
}

void check_whole(int64_t total_rows, bool positions, const char* tensor, const char* remedy) {
  if (total_rows != 0 && positions)
    fail(Status::invalid_argument, std::string("`total_rows`: expected 0 when ") + tensor +
                                       " is used, got " + std::to_string(total_rows) + remedy);
}

}  // namespace

void adjust(const ligerdsl_embedding_forward_desc_t& d, kernels::EmbeddingOptions& options,
            OperationPlan::Bindings& bindings) {
  const bool positions = d.with_position_weight != 0;
  options.shard = is_shard(d);
  check_whole(d.total_rows, positions, "position_weight",
              "; a shard cannot add positions: add them once, to the sum over the shards");
  options.positions = positions ? d.n_positions : 0;
  if (options.shard) bindings.integers = {{"first_row", d.first_row}, {"total_rows", d.total_rows}};
}

void adjust(const ligerdsl_embedding_backward_desc_t& d, kernels::EmbeddingOptions& options,
            OperationPlan::Bindings& bindings) {
  const bool positions = d.d_position_weight_dtype != 0;
  if (positions && d.accumulate_positions && d.d_position_weight_dtype != LIGERDSL_F32)
    fail(Status::invalid_dtype,
         std::string("`d_position_weight_dtype`: expected f32 with `accumulate_positions`, got ") +
             dtype_name(d.d_position_weight_dtype));
  check_gradient("d_position_weight_dtype", d.d_position_weight_dtype, d.dtype, 0);
  options.shard = is_shard(d);
  check_whole(d.total_rows, positions, "d_position_weight",
              "; a shard has no positions: compute their gradient in a separate call without a "
              "shard");
  options.positions = positions ? d.n_positions : 0;
  if (options.shard) bindings.integers = {{"first_row", d.first_row}};
}

}  // namespace ligerdsl::lib
