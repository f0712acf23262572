// Modulated RMSNorm. Each of the n_modulations vectors applies to an equal number of consecutive
// rows.
#include "kernels/norm/modulated_rms_norm.h"

#include <algorithm>

#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

namespace {

OperationPlan::Number rows_of(int symbol, int64_t modulations) {
  return [=](const Call& call) {
    const int64_t rows = call.sizes[symbol];
    if (rows % modulations != 0)
      fail(Status::invalid_shape,
           "`x`: expected a multiple of n_modulations = " + std::to_string(modulations) +
               " rows, got " + std::to_string(rows));
    return rows;
  };
}

OperationPlan::Number rows_of_modulation(int symbol, int64_t modulations) {
  return [=](const Call& call) { return std::max<int64_t>(call.sizes[symbol] / modulations, 1); };
}

void bind_rows(int symbol, int64_t modulations, OperationPlan::Bindings* bindings) {
  bindings->integers_of_call.emplace_back("rows_of_modulation",
                                          rows_of_modulation(symbol, modulations));
  bindings->rows = rows_of(symbol, modulations);
}

}  // namespace

void adjust(const ligerdsl_modulated_rms_norm_forward_desc_t& d, kernels::ModulatedRmsNormOptions&,
            OperationPlan::Bindings& bindings) {
  bind_rows(modulated_rms_norm_forward::dim_N, d.n_modulations, &bindings);
}

void adjust(const ligerdsl_modulated_rms_norm_backward_desc_t& d, kernels::ModulatedRmsNormOptions&,
            OperationPlan::Bindings& bindings) {
  bind_rows(modulated_rms_norm_backward::dim_N, d.n_modulations, &bindings);
}

}  // namespace ligerdsl::lib
