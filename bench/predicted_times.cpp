// predicted_times [--time]: predicts times of operations on an H200, for bench/fit_machine.py.
//
// Input: one case per line, written as its operations in the syntax of the `ligerdsl` command,
// separated by ";". After an empty line, each line sets rates of the machine ("tensor=1700
// scatter=8"). Output: the first line has one digit per case, which is 1 if a loop's number of
// iterations depends on data. Then each line of rates gives one line with the predictions of all
// cases in us.
//
// With --time it prints two CPU times of each kernel in us: preparing the work counter, and
// counting.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "analysis/work.h"
#include "kernels/core/predict.h"
#include "lib/cli/kernels/listed_call.h"
#include "program/serialize.h"

namespace ligerdsl::cli {
namespace {

constexpr const char* kArch = "sm_90a";

struct Step {
  analysis::Work work;
  program::CompileOptions options;
  int64_t m = 0, n = 0, k = 0;  // sizes of a matmul that cuBLASLt computes
};
using Call = std::vector<Step>;

struct CountTime {
  std::string kernel;
  double prepare_us, count_us;
};

// Returns the CPU time of this thread.
double thread_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

// Appends the launches of one operation.
void add_operation(const std::string& text, Call* call, std::vector<CountTime>* times) {
  const auto context = listed_call(text, kArch);
  for (const LaunchList::Launch& launch : context->list.launches) {
    if (launch.kernel < 0) {
      call->push_back({.work = {}, .options = {}, .m = launch.m, .n = launch.n, .k = launch.k});
      continue;
    }
    const RecordedKernel& kernel = context->recorded[static_cast<size_t>(launch.kernel)];
    const program::Program program = program::parseProgram(kernel.program);
    const double begin = thread_us();
    const analysis::WorkCounter counter(program, kernel.options.num_stages);
    const double prepare_us = thread_us() - begin;
    const double counting = thread_us();
    call->push_back(
        {.work = counter.count(launch.slots.data(), {launch.grid.x, launch.grid.y, launch.grid.z}),
         .options = kernel.options});
    times->push_back({program.name, prepare_us, thread_us() - counting});
  }
}

kernels::Prediction predict(const Step& step, const kernels::MachineRates& rates) {
  const kernels::Machine machine = kernels::gpu(kArch, 0, 90);
  return step.m > 0 ? kernels::predict_matmul(step.m, step.n, step.k, machine, rates)
                    : kernels::predict(step.work, step.options, machine, rates);
}

void set_rates(const std::string& line, kernels::MachineRates* rates) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    bool known = false;
    rates->visit([&](const char* name, double& value) {
      if (word.substr(0, equals) != name) return;
      value = std::stod(word.substr(equals + 1));
      known = true;
    });
    if (!known)
      throw std::runtime_error("expected RATE=VALUE with a known rate, got \"" + word + "\"");
  }
}

int run(bool time) {
  std::vector<Call> calls;
  std::vector<CountTime> times;
  for (std::string line; std::getline(std::cin, line) && !line.empty();) {
    std::istringstream operations(line);
    calls.emplace_back();
    for (std::string operation; std::getline(operations, operation, ';');)
      add_operation(operation, &calls.back(), &times);
  }
  if (time) {
    for (const CountTime& one : times)
      std::printf("%s %.1f %.1f\n", one.kernel.c_str(), one.prepare_us, one.count_us);
    return 0;
  }
  for (const Call& call : calls) {
    bool assumed = false;
    for (const Step& step : call) assumed = assumed || predict(step, kernels::kH200).is_assumed;
    std::printf("%d ", assumed);
  }
  std::printf("\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    kernels::MachineRates rates = kernels::kH200;
    set_rates(line, &rates);
    for (const Call& call : calls) {
      std::vector<kernels::Prediction> steps;
      for (const Step& step : call) steps.push_back(predict(step, rates));
      std::printf("%.6g ", kernels::call_us(steps, rates));
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace ligerdsl::cli

int main(int argc, char** argv) {
  setenv("LIGERDSL_TUNING", "off", 1);  // ignores tuned tables, so schedules come from heuristics
  try {
    return ligerdsl::cli::run(argc > 1 && std::string(argv[1]) == "--time");
  } catch (const std::exception& error) {
    std::cerr << "predicted_times: " << error.what() << "\n";
    return 2;
  }
}
