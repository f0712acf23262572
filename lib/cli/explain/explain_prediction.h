// Prediction of the time of a call's launches (kernels/core/predict.h), for `ligerdsl explain`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analysis/work.h"
#include "kernels/core/predict.h"
#include "lib/cli/kernels/author_call.h"
#include "lib/cli/kernels/launch_list.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

class CallPrediction {
 public:
  // `device` is the name that the driver reports, or "" if the device is not present.
  CallPrediction(const kernels::Machine& machine, const std::string& device)
      : machine_(machine), rates_(kernels::find_machine_rates(machine, device)) {}

  bool has_rates() const { return rates_ != nullptr; }

  // Add one launch and return its prediction. Call these functions only if has_rates() is true.
  kernels::Prediction add(const LaunchList::Launch& launch, const RecordedKernel& kernel);
  kernels::Prediction add(const LaunchList::Launch& launch);  // matrix library's matmul
  kernels::Prediction add(const AuthorCall& call, const program::CompileOptions& options);

  // Returns the time of all launches. "iterations_known" is false if the time is a lower bound,
  // because a loop's number of iterations is unknown.
  Json json() const;

 private:
  struct Counter {
    program::Program program;
    std::unique_ptr<analysis::WorkCounter> work;
  };

  kernels::Machine machine_;
  const kernels::MachineRates* rates_;
  std::map<int, Counter> counters_;  // by the kernel's index in the recorded kernels
  std::vector<kernels::Prediction> steps_;
};

// Returns "12.3 us", or "at least 12.3 us" if a loop's number of iterations is unknown.
std::string predicted_text(const Json& prediction);

}  // namespace ligerdsl::cli
