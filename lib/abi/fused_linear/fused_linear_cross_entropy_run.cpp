// Runs fused linear cross-entropy, chunk by chunk.
#include <algorithm>

#include "lib/abi/fused_linear/fused_linear_cross_entropy_plan.h"

namespace ligerdsl::lib::head {

namespace {

namespace op = fused_linear_cross_entropy;
using runtime::Matrix;
using runtime::Product;

}  // namespace

void FusedLinearCrossEntropy::execute(const Call& call) const {
  const int64_t rows = call.sizes[op::dim_N];
  const LinearLayout layout = layout_of(call);
  Views views = whole_batch(call, layout, rows);
  if (rows == 0) return without_rows(views, call);
  weight_.convert_all(call, layout, views);
  if (count_) count_->run(view_table(views), nullptr, rows, call.stream);
  if (smoothing_) smoothing_->sum_weight(call, layout, &views);
  if (layout.rows_in_front > 0) run_in_front(call, chunks_.in_front(layout, rows), &views);
  if (chunks_.needs_rows(layout)) run_chunks(call, layout, layout.rows_in_front, rows, &views);
  if (finish_) finish_->run(view_table(views), nullptr, rows, call.stream);
  if (round_d_bias_) round_d_bias_->run(view_table(views), nullptr, 1, call.stream);
  if (layout.by_vocabulary)
    check_ignored_rows(call, layout, layout.in_d_weight ? rows - layout.chunk : rows, views);
  if (layout.in_d_weight) {
    run_blocks_in_place(call, layout, views);
  } else if (layout.by_vocabulary) {
    for (int64_t first = 0; first < d_.n_classes; first += layout.columns) {
      run_block(call, layout, first, std::min(layout.columns, d_.n_classes - first), views);
    }
  } else if (layout.add_up_d_weight) {
    round_d_weight_->run(view_table(views), nullptr, d_.n_classes, call.stream);
  }
}

void FusedLinearCrossEntropy::count_x(const Call& call, const LinearLayout& layout, int64_t rows,
                                      Views* views) const {
  if (!counted_x_ || layout.by_vocabulary) return;
  views->chunk.x = d_.with_d_x ? views->gradients.d_x_wanted : x_in_workspace(call, layout, rows);
  counted_x_->run(view_table(*views), rows, call.stream);
}

BoundTensor FusedLinearCrossEntropy::x_in_workspace(const Call& call, const LinearLayout& layout,
                                                    int64_t rows) const {
  return make_view(call.workspace + layout.x, product_type_, rows, d_.n_cols, layout.copy_stride);
}

Views FusedLinearCrossEntropy::whole_batch(const Call& call, const LinearLayout& layout,
                                           int64_t rows) const {
  Views v{};
  const auto f32_rows = [&](size_t at) {
    return make_vector(call.workspace + at, DType::f32, rows);
  };
  const auto as_row_if = [](const BoundTensor& vector) {
    return vector.present ? as_row(vector) : vector;
  };
  const bool per_row = d_.reduction == LIGERDSL_REDUCTION_NONE;
  v.batch.error = context_->error_word(info_);
  v.batch.counts = make_vector(call.workspace + layout.counts, DType::f32, 4);
  v.batch.labels = call.tensors[op::k_labels];
  v.batch.class_weight = call.tensors[op::k_class_weight];
  v.batch.bias = call.tensors[op::k_bias];
  v.batch.loss = call.tensors[op::k_loss];
  v.batch.z_loss = call.tensors[op::k_z_loss];
  v.batch.accuracy = call.tensors[op::k_accuracy];
  v.batch.row_loss = per_row ? v.batch.loss : f32_rows(layout.row_loss);
  v.batch.row_z_loss = per_row ? v.batch.z_loss : f32_rows(layout.row_z_loss);
  v.batch.row_accuracy = per_row ? v.batch.accuracy : f32_rows(layout.row_accuracy);
  v.block.weight_given = call.tensors[op::k_weight];
  v.batch.weight = weight_.all(call, layout, v.block.weight_given);
  v.gradients.d_weight_wanted = call.tensors[op::k_d_weight];
  v.batch.lse = d_.with_lse ? call.tensors[op::k_lse] : f32_rows(layout.lse);
  v.batch.label_logit = f32_rows(layout.label_logit);
  v.batch.entropy = d_.with_entropy ? call.tensors[op::k_entropy] : f32_rows(layout.entropy);
  v.gradients.d_weight = layout.add_up_d_weight && !layout.by_vocabulary
                             ? make_view(call.workspace + layout.d_weight, DType::f32, d_.n_classes,
                                         d_.n_cols, d_.n_cols)
                             : v.gradients.d_weight_wanted;
  v.gradients.d_bias_wanted = as_row_if(call.tensors[op::k_d_bias]);
  v.gradients.d_bias = round_d_bias_
                           ? make_vector(call.workspace + layout.d_bias, DType::f32, d_.n_classes)
                           : call.tensors[op::k_d_bias];
  v.gradients.d_bias_row = as_row_if(v.gradients.d_bias);
  return v;
}

void FusedLinearCrossEntropy::select_rows(const Call& call, const LinearLayout& layout,
                                          int64_t first, int64_t count, Views* views) const {
  Views& v = *views;
  v.chunk.x_given = rows_of(call.tensors[op::k_x], first, count);
  v.chunk.x = convert_x_ ? x_in_workspace(call, layout, count) : v.chunk.x_given;
  v.chunk.labels = rows_of(v.batch.labels, first, count);
  v.rows.lse = rows_of(v.batch.lse, first, count);
  v.rows.label_logit = rows_of(v.batch.label_logit, first, count);
  v.rows.entropy = rows_of(v.batch.entropy, first, count);
  v.chunk.d_entropy = rows_of(call.tensors[op::k_d_entropy], first, count);
  v.chunk.d_loss = call.tensors[op::k_d_loss];
  if (d_.reduction == LIGERDSL_REDUCTION_NONE)
    v.chunk.d_loss = rows_of(v.chunk.d_loss, first, count);
}

void FusedLinearCrossEntropy::multiply(const Call& call, const LinearLayout& layout,
                                       Product product, const BoundTensor& a, const BoundTensor& b,
                                       bool add, const BoundTensor& c) const {
  matmul_->multiply(product, matrix(a), matrix(b), add ? 1.0f : 0.0f, matrix(c),
                    call.workspace + layout.products, call.stream);
}

void FusedLinearCrossEntropy::multiply_logits(const Call& call, const LinearLayout& layout,
                                              int64_t first, const Views& views) const {
  const BoundTensor& logits = views.chunk.logits;
  weight_.for_pieces(call, layout, first, logits.dims[1], views,
                     [&](const Part& piece, const Views& v) {
                       multiply(call, layout, Product::nt, v.chunk.x, v.block.weight, false,
                                columns_of(logits, piece.first - first, piece.size));
                     });
}

void FusedLinearCrossEntropy::multiply_d_x(const Call& call, const LinearLayout& layout,
                                           const Views& views) const {
  weight_.for_pieces(call, layout, 0, d_.n_classes, views, [&](const Part& piece, Views& v) {
    v.chunk.logits = columns_of(views.chunk.logits, piece.first, piece.size);
    const bool add = piece.first > 0;
    if (exponential_matmuls_)
      exponential_matmuls_->multiply_d_x(call, layout, add, v);
    else
      multiply(call, layout, Product::nn, v.chunk.logits, v.block.weight, add, v.gradients.d_x);
  });
}

void FusedLinearCrossEntropy::run_chunk(const Call& call, const LinearLayout& layout, int64_t first,
                                        int64_t count, Views* views) const {
  Views& v = *views;
  std::byte* const memory = call.workspace;
  select_rows(call, layout, first, count, views);
  v.gradients.d_x_wanted = rows_of(call.tensors[op::k_d_x], first, count);
  v.gradients.d_x = layout.add_up_d_x
                        ? make_view(memory + layout.d_x, DType::f32, count, d_.n_cols, d_.n_cols)
                        : v.gradients.d_x_wanted;
  v.chunk.logits =
      make_view(memory + layout.logits, product_type_, count, d_.n_classes, layout.logits_stride);
  v.rows.loss = rows_of(v.batch.row_loss, first, count);
  v.rows.z_loss = rows_of(v.batch.row_z_loss, first, count);
  v.rows.accuracy = rows_of(v.batch.row_accuracy, first, count);
  v.rows.predictions = rows_of(call.tensors[op::k_predictions], first, count);
  if (exponential_matmuls_) exponential_matmuls_->select(layout, count, views);

  if (convert_x_) convert_x_->run(view_table(v), nullptr, count, call.stream);
  count_x(call, layout, count, &v);
  if (exponentials_)
    exponentials_->run(call, layout, weight_, first, &v);
  else
    run_logits(call, layout, first, count, &v);
  const bool add = d_.accumulate || first > 0;
  if (next_d_bias_)
    (add ? next_d_bias_ : first_d_bias_)->run(view_table(v), nullptr, count, call.stream);
  if (smoothing_ && d_.d_bias_dtype != 0) smoothing_->add_to_bias(call, v);
  const bool kept = layout.in_d_weight && first + count == layout.rows;
  if (d_.d_weight_dtype != 0 && (kept || !layout.by_vocabulary)) {
    if (exponentials_) exponentials_->scale_x(call, layout, &v);
    if (smoothing_) smoothing_->sum_x(call, v);
  }
  if (d_.d_weight_dtype != 0 && !layout.by_vocabulary) {
    if (exponential_matmuls_)
      exponential_matmuls_->multiply_d_weight(call, v, add);
    else
      multiply(call, layout, Product::tn, v.chunk.logits, v.chunk.x, add, v.gradients.d_weight);
  }
  if (d_.with_d_x) multiply_d_x(call, layout, v);
  if (layout.add_up_d_x) round_d_x_->run(view_table(v), nullptr, count, call.stream);
}

void FusedLinearCrossEntropy::run_chunks(const Call& call, const LinearLayout& layout,
                                         int64_t first, int64_t end, Views* views) const {
  while (first < end) {
    const int64_t count = LinearChunks::chunk_at(layout, end, first);
    run_chunk(call, layout, first, count, views);
    first += count;
  }
}

void FusedLinearCrossEntropy::run_in_front(const Call& call, const LinearLayout& layout,
                                           Views* views) const {
  run_chunks(call, layout, 0, layout.rows, views);
  run_blocks_in_place(call, layout, *views);
}

void FusedLinearCrossEntropy::run_logits(const Call& call, const LinearLayout& layout,
                                         int64_t first, int64_t count, Views* views) const {
  Views& v = *views;
  if (gradients_) {
    gradients_->find_label_logits(&v, call);
    return gradients_->run(call, layout, weight_, first, 0, v);
  }
  multiply_logits(call, layout, 0, v);
  if (label_logit_ && (from_lse_ || layout.by_vocabulary))
    label_logit_->run(view_table(v), nullptr, count, call.stream);
  if (!from_lse_) return rows_->run(view_table(v), &first, count, call.stream);
  v.block.bias = v.batch.bias;
  v.block.class_weight = v.batch.class_weight;
  run_columns(call, v, {first, 0});
}

void FusedLinearCrossEntropy::run_columns(const Call& call, const Views& v,
                                          const Numbers& numbers) const {
  const int64_t* const size = v.chunk.logits.dims;
  columns_->run(view_table(v), numbers.data(), size[0] * column_blocks(size[1]), call.stream);
}

void FusedLinearCrossEntropy::without_rows(const Views& views, const Call& call) const {
  if (count_) count_->run(view_table(views), nullptr, 0, call.stream);
  if (finish_) finish_->run(view_table(views), nullptr, 0, call.stream);
  if (zero_d_weight_) zero_d_weight_->run(view_table(views), nullptr, d_.n_classes, call.stream);
  if (zero_d_bias_) zero_d_bias_->run(view_table(views), nullptr, 1, call.stream);
}

}  // namespace ligerdsl::lib::head
