// Plans of matrix products: schedules for few rows, and one for any number.
#pragma once

#include "kernels/matmul_config.h"
#include "lib/src/ops/support.h"

namespace ligerdsl::lib {

/// `rows`: the symbol of a's rows in memory.
template <class Desc, class Kernel, class Options>
std::unique_ptr<OpPlan> plan_of_product(const ContextRef& context, const OpInfo& info, const Desc& d,
                                        const Kernel& kernel, Options options, OperationPlan::Bindings bindings,
                                        int rows) {
  std::vector<OperationPlan::Bucket> buckets;
  for (const int64_t most : few_rows(context->machine(), options)) {
    options.most_rows = most;
    buckets.push_back({most, configured(context, kernel, options)});
  }
  options.most_rows = 0;
  buckets.push_back({OperationPlan::kAnyRows, configured(context, kernel, options)});
  bindings.rows = size_of_call(rows);
  return std::make_unique<OperationPlan>(context, info, &d, std::move(buckets), std::move(bindings));
}

}  // namespace ligerdsl::lib
