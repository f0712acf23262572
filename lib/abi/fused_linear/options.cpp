#include "lib/abi/fused_linear/options.h"

#include "lib/abi/ops/cross_entropy_options.h"

namespace ligerdsl::lib::head {

void check_types(const Desc& d) {
  if (d.dtype == LIGERDSL_F32 && d.weight_dtype != 0 && d.weight_dtype != LIGERDSL_F32)
    fail(Status::invalid_dtype,
         std::string("`weight_dtype`: expected f32 where x is f32, got ") +
             dtype_name(d.weight_dtype) +
             ": matmuls have the dtype of x; convert x to the dtype of the weight");
  check_f32_or("weight_dtype", d.weight_dtype, d.dtype);
  check_f32_or("bias_dtype", d.bias_dtype, d.dtype);
  check_gradient("d_weight_dtype", d.d_weight_dtype, d.dtype, d.accumulate);
  if (d.d_bias_dtype != 0 && d.bias_dtype == 0)
    fail(Status::invalid_argument,
         "`d_bias_dtype`: expected 0 without a bias (`bias_dtype` is 0), got " +
             dtype_name(d.d_bias_dtype));
  check_gradient("d_bias_dtype", d.d_bias_dtype, d.bias_dtype, d.accumulate);
}

bool with_gradient(const Desc& d) {
  return d.with_d_x || d.d_weight_dtype || d.d_bias_dtype;
}

void check_wanted(const Desc& d) {
  check_without_loss(d, d.with_lse || with_gradient(d));
  check_upstream("with_d_entropy", d.with_d_entropy, with_gradient(d), "d_x, d_weight or d_bias");
}

kernels::CrossEntropyOptions kernel_options(const Desc& d, DType product_type, bool keeps_lse) {
  kernels::CrossEntropyOptions options = cross_entropy_options(d);
  options.type = product_type;
  options.has_bias = d.bias_dtype != 0;
  options.bias_type = dtype_of(d.bias_dtype);
  options.with_gradient = with_gradient(d);
  options.with_d_loss = options.with_gradient && d.with_d_loss;
  options.d_loss_type = dtype_of(d.d_loss_dtype);
  options.token_scaling = d.use_token_scaling != 0;
  options.with_lse = keeps_lse || d.with_lse;
  options.with_entropy = d.with_entropy || (d.with_d_entropy && keeps_lse);
  options.part = true;
  return options;
}

DType weight_type(const Desc& d) {
  return dtype_of(d.weight_dtype != 0 ? d.weight_dtype : d.dtype);
}

bool may_use_d_weight(const Desc& d, DType product_type) {
  return d.max_workspace_bytes > 0 && d.d_weight_dtype != 0 && !d.accumulate &&
         d.d_bias_dtype == 0 && !(d.with_d_x && d.in_place) && d.chunk_rows == 0 &&
         d.chunking == LIGERDSL_CHUNKING_WORKSPACE && dtype_of(d.dtype) == product_type &&
         weight_type(d) == product_type;
}

LinearChunkOptions chunk_options(const Desc& d, bool from_lse, DType product_type, int64_t few_rows,
                                 size_t product_workspace) {
  return {.classes = d.n_classes,
          .cols = d.n_cols,
          .type = dtype_of(d.dtype),
          .weight_type = weight_type(d),
          .product_type = product_type,
          .with_d_x = d.with_d_x != 0,
          .with_d_weight = d.d_weight_dtype != 0,
          .with_d_bias = d.d_bias_dtype != 0,
          .d_weight_type = dtype_of(d.d_weight_dtype),
          .d_bias_type = dtype_of(d.d_bias_dtype),
          .product_workspace = product_workspace,
          .few_rows = few_rows,
          .keeps_x = !(d.with_d_x && d.in_place),
          .token_scaling = d.use_token_scaling != 0,
          .keeps_lse = d.with_lse == 0,
          .keeps_entropy = d.with_d_entropy && !d.with_entropy,
          .from_lse = from_lse,
          .rule = d.chunking == LIGERDSL_CHUNKING_PUBLISHED ? ChunkRule::published
                                                            : ChunkRule::by_workspace,
          .chunk_rows = d.chunk_rows,
          .max_workspace_bytes = d.max_workspace_bytes};
}

}  // namespace ligerdsl::lib::head
