// Matmul of fp8 tensors.
#include "lib/abi/ops/product_plan.h"

namespace ligerdsl::lib {

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_scaled_matmul_nt_desc_t& d) {
  check_f32_or("bias_dtype", d.bias_dtype, d.c_dtype);
  const kernels::MatmulOptions options{
      .transposes = kernels::Transposes::nt,
      .cols = d.n_cols,
      .width = d.n_inner,
      .type = dtype_of(d.dtype),
      .mixed = d.b_dtype != d.dtype,
      .scaled_rows = d.with_a_scale != 0,
      .scaled_cols = d.with_b_scale != 0,
      .two_level_accumulation =
          d.fast_accumulation == 0 && kernels::keeps_few_bits_of_fp8(context->machine()),
      .c_type = dtype_of(d.c_dtype),
      .has_bias = d.bias_dtype != 0,
      .bias_type = dtype_of(d.bias_dtype)};
  return plan_of_product(context, scaled_matmul_nt::info(), d, kernels::matmul_kernel, options, {},
                         scaled_matmul_nt::dim_M);
}

}  // namespace ligerdsl::lib
