// Plans of matmuls: schedules for few rows, for certain row counts, and for any number of rows.
#pragma once

#include "kernels/matmul/matmul.h"
#include "lib/abi/operand_copies.h"
#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

/// Returns true if a row of a or b, the first two tensors, is not aligned.
inline bool has_unaligned_operands(const Call& call) {
  return is_unaligned(call.tensors[0]) || is_unaligned(call.tensors[1]);
}

/// Schedules of a matmul's plan. Calls with unaligned rows of a or b may have separate schedules,
/// which precede those of other calls.
template <class Kernel, class Options>
class ProductBuckets {
 public:
  using Bucket = OperationPlan::Bucket;

  ProductBuckets(const ContextRef& context, const Kernel& kernel, const Options& options)
      : context_(context), kernel_(kernel), options_(options) {
    options_.most_rows = 0;
    if constexpr (requires { has_unaligned_schedule(machine(), options_); }) {
      has_unaligned_ = has_unaligned_schedule(machine(), options_);
      least_copied_ = least_rows_of_copies(machine(), options_);
    }
  }

  std::vector<Bucket> make() {
    const std::vector<int64_t> few = few_rows(machine(), options_);
    for (size_t i = 0; i < few.size(); ++i) {
      const int64_t next = i + 1 < few.size() ? few[i + 1] : 0;
      if (schedule(few[i]) == schedule(next)) continue;
      if (least_copied_ > 0 && few[i] >= least_copied_)
        add_unaligned(few[i], few[i],
                      [least = least_copied_](int64_t rows) { return rows >= least; });
      buckets_.push_back({few[i], configured(context_, kernel_, of_most(few[i]))});
    }
    add_without_copies(few.empty() ? 0 : few.back());
    add_middle();
    if (least_copied_ > 0) add_unaligned(0, OperationPlan::kAnyRows, [](int64_t) { return true; });
    buckets_.push_back({OperationPlan::kAnyRows, configured(context_, kernel_, options_)});
    return std::move(buckets_);
  }

 private:
  kernels::Machine machine() const { return context_->machine(); }

  Options of_most(int64_t most) const {
    Options bounded = options_;
    bounded.most_rows = most;
    return bounded;
  }

  std::string schedule(int64_t most) const {
    return kernels::meta_text(kernel_.heuristic(machine(), of_most(most)));
  }

  /// Adds a bucket for unaligned calls with at most `up_to` rows whose number of rows `contains`
  /// accepts. Its schedule has most_rows = `most`.
  template <class Contains>
  void add_unaligned(int64_t most, int64_t up_to, Contains contains) {
    if constexpr (requires { options_.unaligned; }) {
      Options unaligned = of_most(most);
      unaligned.unaligned = true;
      buckets_.push_back({up_to, configured(context_, kernel_, unaligned),
                          [contains](const Call& call) {
                            return contains(call.rows) && has_unaligned_operands(call);
                          },
                          "operands with unaligned rows"});
    }
  }

  /// Adds the bucket of unaligned calls whose operands are not copied, if these calls may have more
  /// than `few` rows.
  void add_without_copies(int64_t few) {
    if (!has_unaligned_) return;
    if (least_copied_ == 0)
      return add_unaligned(0, OperationPlan::kAnyRows, [](int64_t) { return true; });
    const int64_t most = least_copied_ - 1;
    if (most > few)
      add_unaligned(most, OperationPlan::kAnyRows, [most](int64_t rows) { return rows <= most; });
  }

  /// Adds a bucket for each set of row counts with a tile shape of its own.
  void add_middle() {
    if constexpr (requires { middle_rows(machine(), options_); }) {
      for (const kernels::ChosenRows& chosen : middle_rows(machine(), options_)) {
        const auto contains = [chosen](int64_t rows) { return chosen.contains(rows); };
        if (least_copied_ > 0 && chosen.most() >= least_copied_)
          add_unaligned(chosen.most(), OperationPlan::kAnyRows, contains);
        buckets_.push_back({OperationPlan::kAnyRows,
                            configured(context_, kernel_, of_most(chosen.most())),
                            [contains](const Call& call) { return contains(call.rows); },
                            "tiles of " + std::to_string(chosen.tile().rows) + " x " +
                                std::to_string(chosen.tile().cols)});
      }
    }
  }

  ContextRef context_;
  const Kernel& kernel_;
  Options options_;
  bool has_unaligned_ = false;
  int64_t least_copied_ = 0;  // fewest rows for which unaligned operands are copied; 0: none
  std::vector<Bucket> buckets_;
};

/// Returns a plan with schedules for several numbers of rows. `rows` is the symbol of the number of
/// rows of a, as stored.
template <class Desc, class Kernel, class Options>
std::unique_ptr<OpPlan> plan_of_product(const ContextRef& context, const OpInfo& info,
                                        const Desc& d, const Kernel& kernel, Options options,
                                        OperationPlan::Bindings bindings, int rows) {
  options.most_rows = 0;
  bindings.rows = size_of_call(rows);
  auto plan = std::make_unique<OperationPlan>(
      context, info, &d, ProductBuckets<Kernel, Options>(context, kernel, options).make(),
      std::move(bindings));
  if constexpr (std::is_same_v<Options, kernels::MatmulOptions>) {
    if (size_of(options.type) == 2 && !options.batch && !context->options().no_jit &&
        kernels::has_fast_products(context->machine(), options.type))
      plan->set_copies(std::make_shared<OperandCopies>(context, options));
  }
  return plan;
}

}  // namespace ligerdsl::lib
