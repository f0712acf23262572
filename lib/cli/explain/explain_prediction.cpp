#include "lib/cli/explain/explain_prediction.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/abi/launcher.h"
#include "program/serialize.h"

namespace ligerdsl::cli {

namespace {

// Returns the argument slots for a launch of an author's kernel, without addresses.
std::vector<uint64_t> slots_of(const AuthorCall& call) {
  std::vector<uint64_t> slots;
  for (const AuthorArgument& argument : call.arguments()) {
    if (argument.is_memory()) {
      slots.push_back(0);
      if (!argument.is_view()) continue;
      const std::vector<int64_t> strides = strides_of(argument.shape);
      for (const std::vector<int64_t>* numbers : {&argument.shape, &strides})
        for (const int64_t number : *numbers) slots.push_back(static_cast<uint64_t>(number));
    } else if (is_float(argument.type.dtype)) {
      slots.push_back(lib::bits_of(argument.type.dtype, argument.number));
    } else {
      slots.push_back(lib::bits_of(argument.type.dtype, argument.integer));
    }
  }
  return slots;
}

}  // namespace

kernels::Prediction CallPrediction::add(const LaunchList::Launch& launch,
                                        const RecordedKernel& kernel) {
  Counter& counter = counters_[launch.kernel];
  if (!counter.work) {
    counter.program = program::parseProgram(kernel.program);
    counter.work =
        std::make_unique<analysis::WorkCounter>(counter.program, kernel.options.num_stages);
  }
  const analysis::Work work =
      counter.work->count(launch.slots.data(), {launch.grid.x, launch.grid.y, launch.grid.z});
  steps_.push_back(kernels::predict(work, kernel.options, machine_, *rates_));
  return steps_.back();
}

kernels::Prediction CallPrediction::add(const AuthorCall& call,
                                        const program::CompileOptions& options) {
  const analysis::Work work =
      analysis::count_work(call.program(), slots_of(call).data(),
                           {call.grid().x, call.grid().y, call.grid().z}, options.num_stages);
  steps_.push_back(kernels::predict(work, options, machine_, *rates_));
  return steps_.back();
}

kernels::Prediction CallPrediction::add(const LaunchList::Launch& launch) {
  steps_.push_back(kernels::predict_matmul(launch.m, launch.n, launch.k, machine_, *rates_));
  return steps_.back();
}

Json CallPrediction::json() const {
  const bool assumed =
      std::any_of(steps_.begin(), steps_.end(), [](const auto& step) { return step.is_assumed; });
  return {{"us", kernels::call_us(steps_, *rates_)},
          {"rates", rates_->name},
          {"iterations_known", !assumed}};
}

std::string predicted_text(const Json& prediction) {
  return fmt::format("{}{}", prediction["iterations_known"].get<bool>() ? "" : "at least ",
                     format_time(prediction["us"].get<double>() / 1e3));
}

}  // namespace ligerdsl::cli
