// Matmuls.
#include "lib/abi/ops/product_plan.h"

namespace ligerdsl::lib {

namespace {

using kernels::Transposes;

template <class Desc>
std::unique_ptr<OpPlan> plan_of(const ContextRef& context, const OpInfo& info, const Desc& d,
                                Transposes transposes, int64_t width, int rows, int64_t batch = 0) {
  check_f32_or("c_dtype", d.c_dtype, d.dtype);
  check_f32_or("bias_dtype", d.bias_dtype, d.dtype);
  const kernels::MatmulOptions options{.transposes = transposes,
                                       .cols = d.n_cols,
                                       .width = width,
                                       .type = dtype_of(d.dtype),
                                       .c_type = dtype_of(d.c_dtype, dtype_of(d.dtype)),
                                       .has_bias = d.bias_dtype != 0,
                                       .bias_type = dtype_of(d.bias_dtype),
                                       .epilogue = static_cast<kernels::Epilogue>(d.epilogue),
                                       .scaled = d.alpha != 1,
                                       .adds = d.beta != 0,
                                       .unit_beta = d.beta == 1,
                                       .batch = batch};
  return plan_of_product(context, info, d, kernels::matmul_kernel, options,
                         {.numbers = {{"alpha", d.alpha}, {"beta", d.beta}}}, rows);
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_matmul_nn_desc_t& d) {
  return plan_of(context, matmul_nn::info(), d, Transposes::nn, d.n_inner, matmul_nn::dim_M);
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_matmul_nt_desc_t& d) {
  return plan_of(context, matmul_nt::info(), d, Transposes::nt, d.n_inner, matmul_nt::dim_M);
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_matmul_tn_desc_t& d) {
  return plan_of(context, matmul_tn::info(), d, Transposes::tn, d.n_rows, matmul_tn::dim_K);
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_matmul_tt_desc_t& d) {
  return plan_of(context, matmul_tt::info(), d, Transposes::tt, d.n_rows, matmul_tt::dim_K);
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_batched_matmul_nn_desc_t& d) {
  return plan_of(context, batched_matmul_nn::info(), d, Transposes::nn, d.n_inner,
                 batched_matmul_nn::dim_M, d.n_batch);
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_batched_matmul_nt_desc_t& d) {
  return plan_of(context, batched_matmul_nt::info(), d, Transposes::nt, d.n_inner,
                 batched_matmul_nt::dim_M, d.n_batch);
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_batched_matmul_tn_desc_t& d) {
  return plan_of(context, batched_matmul_tn::info(), d, Transposes::tn, d.n_rows,
                 batched_matmul_tn::dim_K, d.n_batch);
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_batched_matmul_tt_desc_t& d) {
  return plan_of(context, batched_matmul_tt::info(), d, Transposes::tt, d.n_rows,
                 batched_matmul_tt::dim_K, d.n_batch);
}

}  // namespace ligerdsl::lib
