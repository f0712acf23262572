// Computes the weight's gradient, one vocabulary block after the other.
#include <algorithm>

#include "lib/abi/fused_linear/fused_linear_cross_entropy_plan.h"

namespace ligerdsl::lib::head {

namespace {

namespace op = fused_linear_cross_entropy;
using runtime::Matrix;
using runtime::Product;

}  // namespace

void FusedLinearCrossEntropy::run_blocks_in_place(const Call& call, const LinearLayout& layout,
                                                  const Views& views) const {
  const int64_t blocks = kernels::ceil_div(d_.n_classes, layout.columns);
  for (int64_t block = blocks - 1; block >= 0; --block)
    run_block_in_place(call, layout, block, views);
}

void FusedLinearCrossEntropy::check_ignored_rows(const Call& call, const LinearLayout& layout,
                                                 int64_t rows, Views v) const {
  if (!check_ignored_rows_ || rows <= 0) return;
  select_rows(call, layout, 0, rows, &v);
  check_ignored_rows_->run(view_table(v), nullptr, rows, call.stream);
}

void FusedLinearCrossEntropy::run_block_in_place(const Call& call, const LinearLayout& layout,
                                                 int64_t block, Views v) const {
  const int64_t first_column = block * layout.columns, rows = layout.rows,
                columns = std::min(layout.columns, d_.n_classes - first_column),
                kept = v.exponentials.first_block.dims[0];
  exponential_matmuls_->select_block(block, columns, &v);
  v.smoothing.class_factor = rows_of(v.smoothing.class_factor, first_column, columns);
  select_block(call, layout, first_column, columns, &v);
  exponential_matmuls_->multiply_d_weight(call, v, false);
  const LinearChunks::Again again = LinearChunks::again_at(layout, block);
  std::byte* const in_d_weight =
      v.exponentials.other_blocks.data + block * kept * layout.columns * size_of(product_type_);
  add_rows(call, layout, first_column,
           again.in_d_weight ? in_d_weight : call.workspace + layout.again_logits, again.rows,
           rows - kept, true, &v);
}

void FusedLinearCrossEntropy::run_block(const Call& call, const LinearLayout& layout,
                                        int64_t first_column, int64_t columns, Views v) const {
  select_block(call, layout, first_column, columns, &v);
  add_rows(call, layout, first_column, call.workspace + layout.logits, layout.block_rows,
           v.batch.labels.dims[0], d_.accumulate != 0, &v);
  if (layout.add_up_d_weight) round_d_weight_->run(view_table(v), nullptr, columns, call.stream);
}

void FusedLinearCrossEntropy::select_block(const Call& call, const LinearLayout& layout,
                                           int64_t first_column, int64_t columns,
                                           Views* views) const {
  Views& v = *views;
  const auto part = [&](const BoundTensor& all) { return rows_of(all, first_column, columns); };
  v.block.bias = part(v.batch.bias);
  v.block.class_weight = part(v.batch.class_weight);
  v.gradients.d_weight_wanted = part(v.gradients.d_weight_wanted);
  v.gradients.d_weight =
      layout.add_up_d_weight
          ? make_view(call.workspace + layout.d_weight, DType::f32, columns, d_.n_cols, d_.n_cols)
          : v.gradients.d_weight_wanted;
}

void FusedLinearCrossEntropy::add_rows(const Call& call, const LinearLayout& layout,
                                       int64_t first_column, std::byte* logits, int64_t at_once,
                                       int64_t rows, bool add, Views* views) const {
  Views& v = *views;
  const int64_t columns = v.gradients.d_weight.dims[0];
  for (int64_t first = 0; first < rows; first += at_once) {
    const int64_t count = std::min(at_once, rows - first);
    select_rows(call, layout, first, count, views);
    v.chunk.logits = make_view(logits, product_type_, count, columns, layout.block_stride);
    if (convert_x_) convert_x_->run(view_table(v), nullptr, count, call.stream);
    if (counted_x_) {
      v.chunk.x = x_in_workspace(call, layout, count);
      // If the copy of x has all rows, it is made once for all blocks.
      if (first_column == 0 || at_once < rows) counted_x_->run(view_table(v), count, call.stream);
    }
    if (gradients_) {
      gradients_->run(call, layout, weight_, first, first_column, v);
    } else {
      multiply_logits(call, layout, first_column, v);
      run_columns(call, v, {first, first_column});
    }
    if (exponential_matmuls_)
      exponential_matmuls_->add_rows(call, v, add || first > 0);
    else
      multiply(call, layout, Product::tn, v.chunk.logits, v.chunk.x, add || first > 0,
               v.gradients.d_weight);
  }
}

}  // namespace ligerdsl::lib::head
