// Matmuls of groups of rows.
#include "kernels/matmul/grouped_matmul.h"

#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

namespace {

using kernels::GroupedTransposes;

struct Sizes {
  int rows, offsets;  // symbols
};

// Returns the function that counts the rows. It fails if the number of offsets is not groups + 1.
OperationPlan::Number rows_of(Sizes sizes, int64_t groups) {
  return [sizes, groups](const Call& call) {
    if (const int64_t got = call.sizes[sizes.offsets]; got >= 0 && got != groups + 1)
      fail(Status::invalid_shape, "`offsets`: expected " + std::to_string(groups + 1) +
                                      " elements, one more than the " + std::to_string(groups) +
                                      " groups, got " + std::to_string(got));
    return call.sizes[sizes.rows];
  };
}

template <class Desc>
std::unique_ptr<OpPlan> plan_of_groups(const ContextRef& context, const OpInfo& info, const Desc& d,
                                       GroupedTransposes transposes, int64_t width, bool adds,
                                       Sizes sizes) {
  check_f32_or("c_dtype", d.c_dtype, d.dtype);
  const kernels::GroupedMatmulOptions options{.transposes = transposes,
                                              .experts = d.n_groups,
                                              .cols = d.n_cols,
                                              .width = width,
                                              .type = dtype_of(d.dtype),
                                              .c_type = dtype_of(d.c_dtype, dtype_of(d.dtype)),
                                              .index_type = dtype_of(d.index_dtype),
                                              .adds = adds};
  return plan_of(context, info, d, configured(context, kernels::grouped_matmul_kernel, options),
                 {.rows = rows_of(sizes, d.n_groups)});
}

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_grouped_matmul_nt_desc_t& d) {
  return plan_of_groups(context, grouped_matmul_nt::info(), d, GroupedTransposes::nt, d.n_inner,
                        false, {grouped_matmul_nt::dim_M, grouped_matmul_nt::dim_O});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_grouped_matmul_nn_desc_t& d) {
  return plan_of_groups(context, grouped_matmul_nn::info(), d, GroupedTransposes::nn, d.n_inner,
                        false, {grouped_matmul_nn::dim_M, grouped_matmul_nn::dim_O});
}

std::unique_ptr<OpPlan> make_plan(const ContextRef& context,
                                  const ligerdsl_grouped_matmul_tn_desc_t& d) {
  const int32_t c_dtype = d.c_dtype ? d.c_dtype : d.dtype;
  check_gradient("c_dtype", c_dtype, d.dtype, d.accumulate);
  return plan_of_groups(context, grouped_matmul_tn::info(), d, GroupedTransposes::tn, d.n_rows,
                        d.accumulate != 0, {grouped_matmul_tn::dim_K, grouped_matmul_tn::dim_O});
}

}  // namespace ligerdsl::lib
