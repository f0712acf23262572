// Functions for generated and handwritten plans: kernel options from descriptor fields, checks, and
// a call's numbers.
#pragma once

#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/core/config.h"
#include "kernels/core/reduction.h"
#include "lib/abi/failure.h"
#include "lib/abi/plan.h"
#include "lib/abi/structs.h"
#include "op_table.h"
#include "runtime/observe/ranges.h"

namespace ligerdsl::lib {

// Returns the dtype of a field that check_desc accepted, or `otherwise` if the field is not set.
inline DType dtype_of(int32_t code, DType otherwise = DType::f32) {
  DType type = otherwise;
  dtype_from_code(code, &type);
  return type;
}

inline kernels::Reduction reduction_of(int32_t reduction) {
  switch (reduction) {
    case LIGERDSL_REDUCTION_NONE:
      return kernels::Reduction::none;
    case LIGERDSL_REDUCTION_SUM:
      return kernels::Reduction::sum;
    case LIGERDSL_REDUCTION_BATCHMEAN:
      return kernels::Reduction::batchmean;
    default:
      return kernels::Reduction::mean;
  }
}

// Declares the type of a kernel's options, for decltype.
template <class Options, class Config>
Options kernel_options(const kernels::ConfiguredKernel<Options, Config>&);
template <class Options>
Options kernel_options(const kernels::FixedKernel<Options>&);
template <const auto& kernel>
using OptionsOf = decltype(kernel_options(kernel));

// Converts a field of a descriptor to the type of a kernel's option.
inline void set(DType& option, int32_t code, DType otherwise = DType::f32) {
  option = dtype_of(code, otherwise);
}
inline void set(kernels::Reduction& option, int32_t field) {
  option = reduction_of(field);
}
inline void set(int64_t& option, int64_t field) {
  option = field;
}
template <class Field>
void set(bool& option, Field field) {
  option = field != Field{};
}
template <class Enum>
requires std::is_enum_v<Enum>
void set(Enum& option, int32_t field) {
  option = static_cast<Enum>(field);
}

// Fails unless a dtype is 0, f32 or `other`, the dtype of another tensor.
inline void check_f32_or(const char* name, int32_t got, int32_t other) {
  if (got == 0 || got == LIGERDSL_F32 || got == other) return;
  const bool two = other != 0 && other != LIGERDSL_F32;
  fail(Status::invalid_dtype, std::string("`") + name + "`: expected f32" +
                                  (two ? std::string(" or ") + dtype_name(other) : "") + ", got " +
                                  dtype_name(got));
}

// Fails if a gradient's dtype is neither f32 nor its parameter's dtype. With `accumulate` it must
// be f32.
inline void check_gradient(const char* name, int32_t gradient, int32_t parameter,
                           int32_t accumulate) {
  if (gradient == 0) return;
  check_f32_or(name, gradient, parameter);
  if (accumulate && gradient != LIGERDSL_F32) {
    fail(
        Status::invalid_dtype,
        std::string("`") + name + "`: expected f32 with `accumulate`, got " + dtype_name(gradient));
  }
}

// Returns the wanted gradients' common dtype, for parameters of one dtype. Fails if the gradients'
// dtypes differ.
inline DType gradients_dtype(std::initializer_list<std::pair<const char*, int32_t>> gradients,
                             int32_t parameter, int32_t accumulate) {
  const std::pair<const char*, int32_t>* first = nullptr;
  for (const auto& gradient : gradients) {
    const auto& [name, dtype] = gradient;
    check_gradient(name, dtype, parameter, accumulate);
    if (dtype == 0) continue;
    if (!first) first = &gradient;
    if (dtype != first->second)
      fail(Status::invalid_dtype, std::string("`") + name + "`: expected " +
                                      dtype_name(first->second) + ", the value of `" +
                                      first->first + "`, or 0, got " + dtype_name(dtype));
  }
  return first ? dtype_of(first->second) : DType::f32;
}

// Sets the options of a backward pass that computes d_weight, d_bias or both.
template <class Desc, class Options>
void set_wanted_gradients(const Desc& d, Options* options) {
  using Gradients = decltype(options->gradients);
  options->want_d_weight = d.d_weight_dtype != 0 || d.d_bias_dtype != 0;
  if (options->want_d_weight && d.d_weight_dtype == 0) options->gradients = Gradients::bias;
  if (options->want_d_weight && d.d_bias_dtype == 0) options->gradients = Gradients::weight;
}

// Fails if a field is neither 0 nor the dtype of the tensor `name`.
inline void check_same_dtype(const char* field, int32_t got, int32_t expected, const char* name) {
  if (got == 0 || got == expected) return;
  fail(Status::invalid_dtype, std::string("`") + field + "`: expected " + dtype_name(expected) +
                                  ", the dtype of " + name + ", or 0, got " + dtype_name(got));
}

// Fails if a parameter's gradient is wanted and the parameter is not given.
inline void check_has_parameter(const char* field, int32_t gradient, int32_t parameter,
                                const char* name) {
  if (gradient && !parameter)
    fail(Status::invalid_argument, std::string("`") + field + "`: expected 0 without " + name +
                                       ", got " + dtype_name(gradient));
}

// Fails if a tensor is given and its size is 0.
inline void check_given(const char* field, int64_t size, int32_t given, const char* tensor) {
  if (given && size < 1)
    fail(Status::invalid_shape,
         std::string("`") + field + "`: expected at least 1 with " + tensor + ", got 0");
}

// Fails if a causal matrix has no rows.
inline void check_queries(int32_t causal, int64_t queries) {
  if (causal && queries < 1)
    fail(Status::invalid_shape,
         "`n_queries`: expected at least 1 with `causal`, got " + std::to_string(queries));
}

// Fails if an output that accumulates would overwrite an input.
inline void check_accumulate_alone(int32_t accumulate, int32_t in_place, const char* output,
                                   const char* inputs) {
  if (accumulate && in_place)
    fail(Status::invalid_argument,
         std::string("`in_place`: expected 0 with `accumulate`, got 1; ") + output +
             " cannot accumulate in the memory of " + inputs);
}

// Fails if a backward pass would compute neither d_x nor a parameter's gradient, or has d_sum
// without d_x.
inline void check_without_d_x(int32_t without_d_x, bool parameters, int32_t with_d_sum = 0) {
  if (without_d_x && !parameters)
    fail(Status::invalid_argument,
         "`without_d_x`: expected 0 when no parameter's gradient is requested, got 1; request d_x "
         "or a parameter's gradient");
  if (without_d_x && with_d_sum)
    fail(Status::invalid_argument,
         "`with_d_sum`: expected 0 without d_x, got 1; d_sum is added to d_x, so pass both or "
         "neither");
}

// ---- Numbers of a call ------------------------------------------------------

// Returns a function that reads one size of a call.
inline OperationPlan::Number size_of_call(int symbol) {
  return [symbol](const Call& call) { return call.sizes[symbol]; };
}

// Fails if a tensor that is passed does not have one element, or one per row with `per_row`.
inline void check_reduced(const Call& call, int symbol, const char* name, bool per_row,
                          int64_t rows) {
  const int64_t got = call.sizes[symbol], expected = per_row ? rows : 1;
  if (got < 0 || got == expected) return;
  fail(Status::invalid_shape, std::string("`") + name + "`: expected " + std::to_string(expected) +
                                  (expected == 1 ? " element, got " : " elements, got ") +
                                  std::to_string(got));
}

// Returns a function that counts a call's rows and checks that its `reduced` tensors match them.
inline OperationPlan::Number rows_with_reduced(int symbol, bool per_row,
                                               std::vector<std::pair<int, const char*>> reduced) {
  return [symbol, per_row, reduced = std::move(reduced)](const Call& call) {
    const int64_t rows = call.sizes[symbol];
    for (const auto& [size, name] : reduced) check_reduced(call, size, name, per_row, rows);
    return rows;
  };
}

// Returns a function that counts a call's rows. Causal rows must be whole matrices of `queries`
// rows.
inline OperationPlan::Number rows_of_queries(int symbol, bool causal, int64_t queries) {
  return [symbol, causal, queries](const Call& call) {
    const int64_t rows = call.sizes[symbol];
    if (causal && rows % queries != 0)
      fail(Status::invalid_shape,
           "`causal`: expected a multiple of n_queries = " + std::to_string(queries) +
               " rows, got " + std::to_string(rows));
    return rows;
  };
}

template <class Args>
const Args& args_of(const Call& call) {
  return *static_cast<const Args*>(call.args);
}

// Returns a function that reads a call's numeric argument.
template <class Args>
std::function<float(const Call&)> value_of(float Args::*member) {
  return [member](const Call& call) { return args_of<Args>(call).*member; };
}
template <class Args>
OperationPlan::Number value_of(int64_t Args::*member) {
  return [member](const Call& call) { return args_of<Args>(call).*member; };
}

// ---- Schedules --------------------------------------------------------------

template <class Options, class Config>
class KernelQuestion final : public ConfigQuestion {
 public:
  using Kernel = kernels::ConfiguredKernel<Options, Config>;
  KernelQuestion(const kernels::Machine& machine, const Kernel& kernel, const Options& options)
      : machine_(machine), kernel_(kernel), options_(options) {}

  std::string kernel() const override { return kernel_.name; }
  int version() const override { return kernel_.version; }
  std::string options() const override { return kernels::meta_text(options_); }
  std::vector<MetaField> heuristic() const override {
    return meta_fields(kernel_.heuristic(machine_, options_));
  }
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
  const Kernel& kernel_;  // kernels are static objects, so the kernel outlives this object
  Options options_;
};

// Returns the operation that a kernel records for these options on the context's machine. The
// context's KernelConfigs, or else the heuristic, choose the configuration.
template <class Options, class Config>
kernels::Operation configured(const ContextRef& context,
                              const kernels::ConfiguredKernel<Options, Config>& kernel,
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

template <class Options>
kernels::Operation configured(const ContextRef& context,
                              const kernels::FixedKernel<Options>& kernel, const Options& options) {
  return kernel(context->machine(), options);
}

template <class Desc>
std::unique_ptr<OpPlan> plan_of(const ContextRef& context, const OpInfo& info, const Desc& desc,
                                kernels::Operation operation, OperationPlan::Bindings bindings) {
  return std::make_unique<OperationPlan>(context, info, &desc, std::move(operation),
                                         std::move(bindings));
}

}  // namespace ligerdsl::lib
