#include "lib/cli/bench/bench_measure.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/abi/structs.h"
#include "lib/cli/kernels/inputs.h"
#include "lib/cli/kernels/tuned_author.h"
#include "lib/cli/support/environment.h"
#include "lib/instance/op_instance.h"

namespace ligerdsl::cli {

namespace {

std::string resources_of(const std::vector<const lib::Launcher*>& launchers) {
  std::string text;
  for (const lib::Launcher* launcher : launchers) {
    const runtime::KernelResources& r = launcher->fastest().resources();
    if (r.registers)
      text +=
          fmt::format("{}{} regs, {} threads", text.empty() ? "" : "; ", r.registers, r.threads);
    if (r.spill_bytes) text += fmt::format(", {} B spilled", r.spill_bytes);
  }
  return text;
}

// Kernel that stores the argument slots and grid of its last launch, so that repeat() can launch it
// without the library's checks.
class RememberingKernel final : public runtime::LoadedKernel {
 public:
  explicit RememberingKernel(std::shared_ptr<runtime::LoadedKernel> kernel)
      : kernel_(std::move(kernel)) {
    artifact_ = kernel_->artifact();
    resources_ = kernel_->resources();
  }
  void launch(const uint64_t* slots, const runtime::Grid& grid, runtime::Stream stream) override {
    std::copy_n(slots, artifact_.slots, slots_);
    grid_ = grid;
    kernel_->launch(slots, grid, stream);
  }
  void repeat(runtime::Stream stream) { kernel_->launch(slots_, grid_, stream); }

 private:
  std::shared_ptr<runtime::LoadedKernel> kernel_;
  uint64_t slots_[lib::Launcher::kMaxSlots];
  runtime::Grid grid_{0, 0, 0};
};

class RememberingContext final : public lib::Context {
 public:
  using Context::Context;
  std::shared_ptr<runtime::LoadedKernel> load(const std::string& program,
                                              const program::CompileOptions& options) override {
    auto kernel = std::make_shared<RememberingKernel>(Context::load(program, options));
    kernels.push_back(kernel);
    return kernel;
  }
  std::vector<std::shared_ptr<RememberingKernel>> kernels;
};

// Measures the work, and a copy that moves the same number of bytes.
void measure_with_copy(runtime::Device& device, const runtime::Work& repeated, const BenchRun& run,
                       Outcome* outcome) {
  const runtime::MeasureOptions& options = run.options;
  const runtime::Work work = [&](runtime::Stream stream) {
    run.between();
    repeated(stream);
  };
  const int64_t bytes = same_size_copy_bytes(outcome->bytes);
  if (!device.is_cpu()) {
    outcome->time = runtime::measure(device, work, options);
    outcome->same_copy_gbps = runtime::copy_bandwidth_gbps(device, bytes);
    return;
  }
  const auto times =
      runtime::measure_alternately(device, {work, runtime::copy_work(device, bytes)}, options);
  outcome->time = times[0];
  outcome->same_copy_gbps = runtime::copy_gbps(bytes, times[1]);
}

}  // namespace

int64_t large_copy_bytes(const runtime::Device& device) {
  return device.is_cpu() ? int64_t{256} << 20 : int64_t{2} << 30;
}

int64_t same_size_copy_bytes(double bytes) {
  return std::max<int64_t>(static_cast<int64_t>(bytes / 2), 4096);
}

void measure_host(const Globals& globals, const BenchCase& which, const BenchRun& run,
                  Outcome* outcome) {
  const auto context = std::make_shared<RememberingContext>(device_config(globals));
  OpInstance instance(find_op(which.kernel), which.settings);
  const auto plan = plan_with_inputs(instance, context, run.inputs);
  instance.prepare(*plan);
  lib::Call& call = instance.call();
  constexpr int kCalls = 100;
  runtime::Device& device = context->device();
  const runtime::Stream stream = call.stream =
      device.create_stream();  // kernels of the default stream never overlap
  outcome->host_us = runtime::host_time_us(device, stream, kCalls, [&] {
    plan->bind(&call);
    plan->execute(&call);
  });
  outcome->launch_us = runtime::host_time_us(device, stream, kCalls, [&] {
    for (const auto& kernel : context->kernels) kernel->repeat(stream);
  });
  device.destroy_stream(stream);
}

Outcome measure_op(const lib::ContextRef& context, const BenchCase& which, const BenchRun& run) {
  const lib::OpInfo& info = find_op(which.kernel);
  OpInstance instance(info, which.settings);
  const auto plan = plan_with_inputs(instance, context, run.inputs);
  instance.prepare(*plan);
  Outcome outcome{.kernel = which.kernel,
                  .title = instance.title(),
                  .resources = resources_of(plan->op().launchers()),
                  .bytes = instance.bytes_moved(),
                  .beyond_inputs = instance.bytes_beyond_inputs(),
                  .workspace = static_cast<double>(instance.call().workspace_bytes),
                  .flops = instance.flops()};
  lib::Call& call = instance.call();
  const auto execute = [&](runtime::Stream stream) {
    call.stream = stream;
    plan->execute(&call);
  };
  measure_with_copy(context->device(), execute, run, &outcome);
  return outcome;
}

Outcome measure_author(const lib::ContextRef& context, const AnyKernel& kernel,
                       const BenchCase& which, const BenchRun& run) {
  const AuthorCall call(kernel, tuned_settings(*context, kernel, which.settings), run.inputs,
                        context->machine());
  const AuthorInstance instance(call, context);
  Outcome outcome{.kernel = which.kernel,
                  .resources = resources_of({&instance.launcher()}),
                  .bytes = call.bytes_moved()};
  for (const std::string& setting : which.settings)
    outcome.title += (outcome.title.empty() ? "" : " ") + setting;
  measure_with_copy(
      context->device(), [&](runtime::Stream stream) { instance.launch(stream); }, run, &outcome);
  return outcome;
}

}  // namespace ligerdsl::cli
