// Records the kernels of fused linear cross-entropy.
#include <algorithm>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/cross_entropy/cross_entropy_columns.h"
#include "kernels/cross_entropy/target_counts.h"
#include "kernels/matmul/row_tiles.h"
#include "kernels/reduce/reduce_partials.h"
#include "lib/abi/fused_linear/fused_linear_cross_entropy_plan.h"

namespace ligerdsl::lib::head {

FusedLinearCrossEntropy::Step FusedLinearCrossEntropy::step(const kernels::Step& recorded,
                                                            StepNames names) const {
  return head_step(*context_, d_, recorded, std::move(names));
}

StepNames FusedLinearCrossEntropy::count_names() {
  return {.views = {{"counts", LIGERDSL_VIEW(batch.counts)},
                    {"labels", LIGERDSL_VIEW(batch.labels)},
                    {"weight", LIGERDSL_VIEW(batch.class_weight)}}};
}

kernels::LinearCrossEntropyOptions FusedLinearCrossEntropy::linear_options(bool keeps_lse) const {
  kernels::LinearCrossEntropyOptions options{kernel_options(d_, product_type_, keeps_lse)};
  options.head_type = weight_type(d_), options.cols = d_.n_cols;
  options.scales_x = d_.d_weight_dtype != 0;
  options.in_blocks = in_blocks();
  return options;
}

void FusedLinearCrossEntropy::make_exponentials() {
  const kernels::LinearCrossEntropyOptions options = linear_options(chunks_.may_go_by_vocabulary());
  exponentials_.emplace(*context_, d_, options);
  if (smooths()) smoothing_.emplace(*context_, d_, options, options.head_type);
  exponential_matmuls_.emplace(*products_.kernels, d_, product_type_, smoothing_.has_value(),
                               options.in_blocks, type_ == product_type_ && !aligned_copies_);
  LinearChunkOptions chunks = chunk_options_of(matmul_->workspace_bytes());
  chunks.tile_columns = exponentials_->tile_columns(),
  chunks.tile_numbers = exponentials_->tile_numbers();
  if (smoothing_) chunks.smoothing_parts = smoothing_->parts();
  chunks.in_blocks = options.in_blocks, chunks.tile_rows = exponentials_->tile_rows();
  chunks.tiles_at_once = std::max<int64_t>(context_->machine().sms, 1);
  chunks_ = LinearChunks(chunks);
}

void FusedLinearCrossEntropy::make_gradients() {
  if (from_lse_ || chunks_.may_go_by_vocabulary())
    gradients_.emplace(*context_, d_, linear_options(chunks_.may_go_by_vocabulary()), from_lse_);
}

void FusedLinearCrossEntropy::make_cross_entropy() {
  const kernels::CrossEntropyOptions options =
      kernel_options(d_, product_type_, chunks_.may_go_by_vocabulary());
  // If logits are not stored, cross-entropy has no tuned schedule.
  const kernels::Operation operation =
      exponentials_ ? kernels::cross_entropy_kernel(context_->machine(), options)
                    : configured(context_, kernels::cross_entropy_kernel, options);
  for (const kernels::Step& recorded : operation.steps) {
    const auto takes = [&](const char* name) {
      return std::any_of(recorded.program.arguments.begin(), recorded.program.arguments.end(),
                         [&](const program::Argument& argument) { return argument.name == name; });
    };
    if (takes("logits")) {
      if (!exponentials_) rows_ = step(recorded, row_names());
    } else if (takes("labels")) {
      count_ = step(recorded, count_names());
    } else {
      finish_ = step(recorded, {.views = {{"loss", LIGERDSL_VIEW(batch.loss)},
                                          {"row_loss", LIGERDSL_VIEW(batch.row_loss)},
                                          {"z_loss", LIGERDSL_VIEW(batch.z_loss)},
                                          {"row_z_loss", LIGERDSL_VIEW(batch.row_z_loss)},
                                          {"accuracy", LIGERDSL_VIEW(batch.accuracy)},
                                          {"row_accuracy", LIGERDSL_VIEW(batch.row_accuracy)},
                                          {"counts", LIGERDSL_VIEW(batch.counts)}}});
    }
  }
}

void FusedLinearCrossEntropy::make_counts() {
  const kernels::CrossEntropyOptions options = kernel_options(d_, product_type_, true);
  if (!kernels::needs_counts(options)) return;
  count_ = step(kernels::target_counts_step({.label_type = options.label_type,
                                             .has_weight = options.has_weight,
                                             .classes = options.classes,
                                             .weight_type = options.weight_type}),
                count_names());
}

void FusedLinearCrossEntropy::make_columns() {
  if (gradients_ || (!from_lse_ && !chunks_.may_go_by_vocabulary())) return;
  const kernels::CrossEntropyOptions options = kernel_options(d_, product_type_, true);
  const kernels::CrossEntropyColumns columns =
      kernels::cross_entropy_columns(context_->machine(), options, from_lse_);
  column_block_ = columns.block;
  columns_ = step(columns.step, {.views = {{"logits", LIGERDSL_VIEW(chunk.logits)},
                                           {"labels", LIGERDSL_VIEW(chunk.labels)},
                                           {"lse", LIGERDSL_VIEW(rows.lse)},
                                           {"label_logit", LIGERDSL_VIEW(rows.label_logit)},
                                           {"bias", LIGERDSL_VIEW(block.bias)},
                                           {"weight", LIGERDSL_VIEW(batch.class_weight)},
                                           {"column_weight", LIGERDSL_VIEW(block.class_weight)},
                                           {"d_loss", LIGERDSL_VIEW(chunk.d_loss)},
                                           {"entropy", LIGERDSL_VIEW(rows.entropy)},
                                           {"d_entropy", LIGERDSL_VIEW(chunk.d_entropy)},
                                           {"counts", LIGERDSL_VIEW(batch.counts)},
                                           {"error", LIGERDSL_VIEW(batch.error)}}});
  if (!options.token_scaling) return;
  label_logit_ = step(kernels::cross_entropy_label_logit(context_->machine(), options),
                      {.views = {{"label_logit", LIGERDSL_VIEW(rows.label_logit)},
                                 {"logits", LIGERDSL_VIEW(chunk.logits)},
                                 {"labels", LIGERDSL_VIEW(chunk.labels)},
                                 {"bias", LIGERDSL_VIEW(batch.bias)}}});
}

void FusedLinearCrossEntropy::make_d_bias() {
  if (d_.d_bias_dtype == 0) return;
  const auto machine = context_->machine();
  const StepNames names{.views = {{"d_bias", LIGERDSL_VIEW(gradients.d_bias)},
                                  {"partials", LIGERDSL_VIEW(chunk.logits)},
                                  {"scale", LIGERDSL_VIEW(exponentials.factor)}}};
  const auto sum = [&](bool accumulate) {
    return kernels::reduce_partials(machine, {{.out = "d_bias",
                                               .from = product_type_,
                                               .cols = d_.n_classes,
                                               .accumulate = accumulate,
                                               .scale = exponentials_.has_value() ? "scale" : ""}});
  };
  if (!d_.accumulate) first_d_bias_ = step(sum(false), names);
  next_d_bias_ = step(sum(true), names);
}

void FusedLinearCrossEntropy::make_conversions() {
  const auto convert = [&](DType from, DType to, int64_t cols, int in, int out) {
    return convert_step(*context_, from, to, cols, in, out);
  };
  const auto zero = [&](int32_t type, int64_t cols, int out) {
    return zero_step(*context_, dtype_of(type), cols, out);
  };
  make_x();
  if (d_.with_d_x && type_ != DType::f32 && (convert_x_ || weight_.converts()))
    round_d_x_ = convert(DType::f32, type_, d_.n_cols, LIGERDSL_VIEW(gradients.d_x),
                         LIGERDSL_VIEW(gradients.d_x_wanted));
  if (d_.d_weight_dtype != 0) {
    if (d_.d_weight_dtype != LIGERDSL_F32)
      round_d_weight_ =
          convert(DType::f32, dtype_of(d_.d_weight_dtype), d_.n_cols,
                  LIGERDSL_VIEW(gradients.d_weight), LIGERDSL_VIEW(gradients.d_weight_wanted));
    if (!d_.accumulate)
      zero_d_weight_ = zero(d_.d_weight_dtype, d_.n_cols, LIGERDSL_VIEW(gradients.d_weight_wanted));
  }
  if (d_.d_bias_dtype != 0) {
    if (d_.d_bias_dtype != LIGERDSL_F32)
      round_d_bias_ =
          convert(DType::f32, dtype_of(d_.d_bias_dtype), d_.n_classes,
                  LIGERDSL_VIEW(gradients.d_bias_row), LIGERDSL_VIEW(gradients.d_bias_wanted));
    if (!d_.accumulate)
      zero_d_bias_ = zero(d_.d_bias_dtype, d_.n_classes, LIGERDSL_VIEW(gradients.d_bias_wanted));
  }
}

void FusedLinearCrossEntropy::make_x() {
  const bool zeros = d_.d_weight_dtype != 0;
  const CountedX::Views views{LIGERDSL_VIEW(chunk.x_given), LIGERDSL_VIEW(chunk.x),
                              LIGERDSL_VIEW(chunk.labels)};
  const CountedX::Rows rows{d_.n_cols, dtype_of(d_.label_dtype), d_.ignore_index};
  if (product_type_ != type_ || aligned_copies_) {
    convert_x_ = zeros ? CountedX::convert(*context_, views, rows, type_, product_type_)
                       : convert_step(*context_, type_, product_type_, d_.n_cols,
                                      LIGERDSL_VIEW(chunk.x_given), LIGERDSL_VIEW(chunk.x));
  } else if (zeros && !exponentials_) {
    counted_x_.emplace(*context_, views, rows, type_, d_.with_d_x && d_.in_place);
  } else if (zeros && chunks_.may_go_by_vocabulary()) {
    check_ignored_rows_ =
        step(kernels::check_ignored_rows(context_->machine(), type_, d_.n_cols, rows.label_type),
             {.views = {{"depth", LIGERDSL_VIEW(exponentials.all_depth)},
                        {"x", LIGERDSL_VIEW(chunk.x)},
                        {"labels", LIGERDSL_VIEW(chunk.labels)}}});
  }
}

}  // namespace ligerdsl::lib::head
