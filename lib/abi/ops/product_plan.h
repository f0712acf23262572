// Plans of matmuls: schedules for few rows, and one for any number of rows.
#pragma once

#include "kernels/matmul/matmul.h"
#include "lib/abi/operand_copies.h"
#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

/// Returns true if a row of a or b, the first two tensors, is not aligned.
inline bool has_unaligned_factors(const Call& call) {
  return is_unaligned(call.tensors[0]) || is_unaligned(call.tensors[1]);
}

/// Returns a plan with a schedule for each range of row counts. `rows`: symbol of a's rows in
/// memory.
template <class Desc, class Kernel, class Options>
std::unique_ptr<OpPlan> plan_of_product(const ContextRef& context, const OpInfo& info,
                                        const Desc& d, const Kernel& kernel, Options options,
                                        OperationPlan::Bindings bindings, int rows) {
  options.most_rows = 0;
  const auto of_most = [&options](int64_t most) {
    Options of_few = options;
    of_few.most_rows = most;
    return of_few;
  };
  const auto schedule = [&](int64_t most) {
    return kernels::meta_text(kernel.heuristic(context->machine(), of_most(most)));
  };
  std::vector<OperationPlan::Bucket> buckets;
  // Calls with unaligned rows of a or b have their own buckets, which precede those of other calls.
  bool has_unaligned = false;
  int64_t least_copied = 0;
  if constexpr (requires { has_unaligned_schedule(context->machine(), options); }) {
    has_unaligned = has_unaligned_schedule(context->machine(), options);
    least_copied = least_rows_of_copies(context->machine(), options);
  }
  const auto add_unaligned = [&](Options of_rows, int64_t least, int64_t up_to) {
    if constexpr (requires { of_rows.unaligned; }) {
      of_rows.unaligned = true;
      buckets.push_back(
          {up_to, configured(context, kernel, of_rows),
           [least](const Call& call) { return call.rows >= least && has_unaligned_factors(call); },
           "operands with unaligned rows"});
    }
  };
  const std::vector<int64_t> few = few_rows(context->machine(), options);
  for (size_t i = 0; i < few.size(); ++i) {
    const int64_t next = i + 1 < few.size() ? few[i + 1] : 0;
    if (schedule(few[i]) == schedule(next)) continue;
    if (least_copied > 0 && few[i] >= least_copied)
      add_unaligned(of_most(few[i]), least_copied, few[i]);
    buckets.push_back({few[i], configured(context, kernel, of_most(few[i]))});
  }
  // More rows than few, and too few for copies of the operands.
  const int64_t not_copied = least_copied - 1;
  bool some_not_copied = has_unaligned && !few.empty() && not_copied > few.back();
  if constexpr (requires { middle_rows(context->machine(), options); }) {
    for (const int64_t most : middle_rows(context->machine(), options)) {
      if (some_not_copied && most >= not_copied) {
        add_unaligned(of_most(not_copied), 0, not_copied);
        some_not_copied = false;
      }
      if (has_unaligned && (some_not_copied || most >= least_copied))
        add_unaligned(of_most(most), some_not_copied ? 0 : least_copied, most);
      buckets.push_back({most, configured(context, kernel, of_most(most))});
    }
  }
  if (some_not_copied) add_unaligned(of_most(not_copied), 0, not_copied);
  if (has_unaligned) add_unaligned(options, least_copied, OperationPlan::kAnyRows);
  buckets.push_back({OperationPlan::kAnyRows, configured(context, kernel, options)});
  bindings.rows = size_of_call(rows);
  auto plan =
      std::make_unique<OperationPlan>(context, info, &d, std::move(buckets), std::move(bindings));
  if constexpr (std::is_same_v<Options, kernels::MatmulOptions>) {
    if (size_of(options.type) == 2 && !options.batch && !context->options().no_jit &&
        kernels::has_fast_products(context->machine(), options.type))
      plan->set_copies(std::make_shared<OperandCopies>(context, options));
  }
  return plan;
}

}  // namespace ligerdsl::lib
