// What the operations of this folder share: description fields in the kernels' terms.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "kernels/core/config.h"
#include "lib/src/failure.h"
#include "lib/src/plan.h"
#include "lib/src/structs.h"
#include "op_table.h"
#include "runtime/observe/ranges.h"

namespace ligerdsl::lib {

// The dtype of a field that check_desc has seen; `otherwise` for one that is not set.
inline DType dtype_of(int32_t code, DType otherwise = DType::f32) {
  DType type = otherwise;
  dtype_from_code(code, &type);
  return type;
}

// f32, or that of another tensor; 0 where neither is set.
inline void check_f32_or(const char* name, int32_t got, int32_t other) {
  if (got == 0 || got == LIGERDSL_F32 || got == other) return;
  fail(Status::invalid_dtype,
       std::string("`") + name + "`: expected f32 or " + dtype_name(other) + ", got " + dtype_name(got));
}

// Rows are the value of one size.
inline OperationPlan::Number size_of_call(int symbol) {
  return [symbol](const Call& call) { return call.sizes[symbol]; };
}

// A parameter's gradient is f32 or of the parameter's dtype, and accumulates in f32 only.
inline void check_gradient(const char* name, int32_t gradient, int32_t parameter, int32_t accumulate) {
  if (gradient == 0) return;
  check_f32_or(name, gradient, parameter);
  if (accumulate && gradient != LIGERDSL_F32) {
    fail(Status::invalid_dtype,
         std::string("`") + name + "`: expected f32 with `accumulate`, got " + dtype_name(gradient));
  }
}

// The one dtype of those gradients of parameters that are wanted, as the parameters have one.
inline DType gradients_dtype(std::initializer_list<std::pair<const char*, int32_t>> gradients, int32_t parameter,
                             int32_t accumulate) {
  const std::pair<const char*, int32_t>* first = nullptr;
  for (const auto& gradient : gradients) {
    const auto& [name, dtype] = gradient;
    check_gradient(name, dtype, parameter, accumulate);
    if (dtype == 0) continue;
    if (!first) first = &gradient;
    if (dtype != first->second)
      fail(Status::invalid_dtype, std::string("`") + name + "`: expected that of `" + first->first + "`, " +
                                      dtype_name(first->second) + ", or 0, got " + dtype_name(dtype));
  }
  return first ? dtype_of(first->second) : DType::f32;
}
// Of d_weight and d_bias.
template <class Desc>
DType gradients_dtype(const Desc& d) {
  return gradients_dtype({{"d_weight_dtype", d.d_weight_dtype}, {"d_bias_dtype", d.d_bias_dtype}}, d.weight_dtype,
                         d.accumulate);
}

// A bias that is there is of the weight's dtype.
template <class Desc>
void check_bias_dtype(const Desc& d) {
  if (d.bias_dtype == 0 || d.bias_dtype == d.weight_dtype) return;
  fail(Status::invalid_dtype, std::string("`bias_dtype`: expected that of weight, ") + dtype_name(d.weight_dtype) +
                                  ", or 0, got " + dtype_name(d.bias_dtype));
}

// A norm's backward makes d_x, gradients of parameters, or both.
inline void check_without_d_x(int32_t without_d_x, bool parameters, int32_t with_d_sum = 0) {
  if (without_d_x && !parameters)
    fail(Status::invalid_argument,
         "`without_d_x`: expected 0 where no gradient of a parameter is wanted, got 1; pass d_x, or what of the "
         "parameters is wanted");
  if (without_d_x && with_d_sum)
    fail(Status::invalid_argument,
         "`with_d_sum`: expected 0 without d_x, got 1; d_sum is added to d_x alone, so pass both or neither");
}

// One element, or one per row: factors, and outputs that a reduction shrinks.
inline void check_reduced(const Call& call, int symbol, const char* name, bool per_row, int64_t rows) {
  const int64_t got = call.sizes[symbol], expected = per_row ? rows : 1;
  if (got < 0 || got == expected) return;
  fail(Status::invalid_shape,
       std::string("`") + name + "`: expected " + std::to_string(expected) + " elements, got " + std::to_string(got));
}

template <class Options, class Config>
class KernelQuestion final : public ConfigQuestion {
 public:
  using Kernel = kernels::ConfiguredKernel<Options, Config>;
  KernelQuestion(const kernels::Machine& machine, const Kernel& kernel, const Options& options)
      : machine_(machine), kernel_(kernel), options_(options) {}

  std::string kernel() const override { return kernel_.name; }
  int version() const override { return kernel_.version; }
  std::string options() const override { return kernels::meta_text(options_); }
  std::vector<MetaField> heuristic() const override { return meta_fields(kernel_.heuristic(machine_, options_)); }
  std::string built(const MetaValues& values) const override {
    return built_text(kernel_.build(machine_, options_, config(values)), machine_.is_gpu());
  }
  std::string refusal(const MetaValues& values) const override try {
    return kernel_.valid(machine_, options_, config(values));
  } catch (const Error& error) {
    return error.what();
  }

 private:
  Config config(const MetaValues& values) const {
    return meta_from<Config>(kernel_.name, values, kernel_.heuristic(machine_, options_));
  }

  kernels::Machine machine_;
  const Kernel& kernel_;  // of the program
  Options options_;
};

// The operation that a kernel makes of these options on the context's machine, in the configuration that the context
// says, else the heuristic's.
template <class Options, class Config>
kernels::Operation configured(const ContextRef& context, const kernels::ConfiguredKernel<Options, Config>& kernel,
                              const Options& options) {
  const runtime::Range range(runtime::RangeKind::record, kernel.name);
  const kernels::Machine machine = context->machine();
  KernelConfigs* configs = context->kernel_configs();
  if (!configs) return kernel(machine, options);
  const MetaValues changed =
      configs->changed(std::make_shared<KernelQuestion<Options, Config>>(machine, kernel, options));
  if (changed.empty()) return kernel(machine, options);
  return kernel.build(machine, options, kernel.chosen(machine, options, changed));
}

template <class Desc>
std::unique_ptr<OpPlan> plan_of(const ContextRef& context, const OpInfo& info, const Desc& desc,
                                kernels::Operation operation, OperationPlan::Bindings bindings) {
  return std::make_unique<OperationPlan>(context, info, &desc, std::move(operation), std::move(bindings));
}

}  // namespace ligerdsl::lib
