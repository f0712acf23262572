// `ligerdsl bench`: median and spread, bytes per second, and the fraction of a copy measured in the same run.
#include <fmt/format.h>

#include "lib/cli/authors.h"
#include "lib/cli/commands.h"
#include "lib/cli/environment.h"
#include "lib/cli/op_instance.h"
#include "lib/src/structs.h"
#include "runtime/measure.h"

namespace ligerdsl::cli {

namespace {

struct Case {
  std::string kernel;
  std::vector<std::string> settings;
};

// The sizes that the project's speed goals are stated for.
std::vector<Case> standard_cases(bool cpu) {
  if (cpu) {
    return {{"vector_add", {"dtype=f32", "N=16777216"}},
            {"rms_norm_forward", {"dtype=f32", "N=16384", "H=4096"}},
            {"layer_norm_forward", {"dtype=f32", "N=16384", "H=4096"}},
            {"swiglu_forward", {"dtype=f32", "N=16384", "F=4096"}},
            {"swiglu_backward", {"dtype=f32", "N=8192", "F=4096"}},
            {"geglu_forward", {"dtype=f32", "N=16384", "F=4096"}},
            {"geglu_backward", {"dtype=f32", "N=8192", "F=4096"}},
            {"softmax_forward", {"dtype=f32", "N=16384", "H=4096"}},
            {"rope", {"dtype=f32", "B=4", "S=1024", "A=32", "K=8", "D=128"}}};
  }
  return {{"vector_add", {"dtype=f32", "N=67108864"}},
          {"rms_norm_forward", {"dtype=bf16", "N=16384", "H=8192"}},
          {"rms_norm_backward", {"dtype=bf16", "d_weight_dtype=f32", "N=16384", "H=8192"}},
          {"fused_add_rms_norm_forward", {"dtype=bf16", "N=16384", "H=8192"}},
          {"fused_add_rms_norm_backward", {"dtype=bf16", "d_weight_dtype=f32", "N=16384", "H=8192"}},
          {"layer_norm_forward", {"dtype=bf16", "N=16384", "H=8192"}},
          {"layer_norm_backward", {"dtype=bf16", "d_weight_dtype=f32", "N=16384", "H=8192"}},
          {"swiglu_forward", {"dtype=bf16", "N=16384", "F=14336"}},
          {"swiglu_backward", {"dtype=bf16", "N=16384", "F=14336"}},
          {"geglu_forward", {"dtype=bf16", "N=16384", "F=14336"}},
          {"geglu_backward", {"dtype=bf16", "N=16384", "F=14336"}},
          {"rope", {"dtype=bf16", "table_dtype=f32", "B=8", "S=2048", "A=32", "K=8", "D=128"}},
          {"softmax_forward", {"dtype=bf16", "N=16384", "H=8192"}},
          {"softmax_backward", {"dtype=bf16", "N=16384", "H=8192"}},
          {"cross_entropy", {"dtype=bf16", "N=4096", "V=128256", "in_place=1"}},
          {"embedding_forward", {"dtype=bf16", "N=32768", "V=128256", "H=2048"}},
          {"adamw_step", {"dtype=f32", "grad_dtype=f32", "copy_dtype=bf16", "N=67108864"}},
          {"global_norm", {"dtype=f32", "N=67108864"}}};
}

// Copies of the size that a case moves, measured once per size.
class Copies {
 public:
  Copies(runtime::Device& device, int64_t ceiling_bytes)
      : device_(device), ceiling_(runtime::copy_bandwidth_gbps(device, ceiling_bytes)) {}
  double ceiling() const { return ceiling_; }
  double same_size(double bytes_moved) {
    return runtime::copy_bandwidth_gbps(device_, std::max<int64_t>(static_cast<int64_t>(bytes_moved / 2), 4096));
  }

 private:
  runtime::Device& device_;
  double ceiling_;
};

std::string resources_of(const lib::OpPlan& plan) {
  std::string text;
  for (const lib::Launcher* launcher : plan.launchers()) {
    const runtime::KernelResources& r = launcher->fastest().resources();
    if (r.registers) text += fmt::format("{}{} regs, {} threads", text.empty() ? "" : "; ", r.registers, r.threads);
    if (r.spill_bytes) text += fmt::format(", {} B spilled", r.spill_bytes);
  }
  return text;
}

struct Outcome {
  std::string kernel, title, resources;
  double bytes = 0;
  double host_us = 0, launch_us = 0;  // GPU: host time of one execute, and of its launches alone
  runtime::Measurement time;
};

// Remembers the slots and the grid of its latest launch, so that the launch can be repeated by itself.
class RememberingKernel final : public runtime::LoadedKernel {
 public:
  explicit RememberingKernel(std::shared_ptr<runtime::LoadedKernel> kernel) : kernel_(std::move(kernel)) {
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

// Host time of one execute on a warm plan, tensors checked, and of the same launches without the library around them.
void measure_host(const Globals& globals, const Case& which, Outcome* outcome) {
  const auto context = std::make_shared<RememberingContext>(device_config(globals));
  OpInstance instance(find_op(which.kernel), which.settings);
  instance.allocate(context);
  const lib::Plan plan(instance.info(), context, instance.desc());
  instance.prepare(plan);
  lib::Call& call = instance.call();
  constexpr int kCalls = 100;
  outcome->host_us = runtime::host_time_us(context->device(), nullptr, kCalls, [&] {
    plan.bind(&call);
    plan.execute(&call);
  });
  outcome->launch_us = runtime::host_time_us(context->device(), nullptr, kCalls, [&] {
    for (const auto& kernel : context->kernels) kernel->repeat(nullptr);
  });
}

Outcome measure_op(const lib::ContextRef& context, const Case& which, const runtime::MeasureOptions& options) {
  const lib::OpInfo& info = find_op(which.kernel);
  OpInstance instance(info, which.settings);
  lib::check_desc(info, instance.desc());
  instance.allocate(context);
  const lib::Plan plan(info, context, instance.desc());
  instance.prepare(plan);
  Outcome outcome{.kernel = which.kernel,
                  .title = instance.title(),
                  .resources = resources_of(plan.op()),
                  .bytes = instance.bytes_moved()};
  lib::Call& call = instance.call();
  outcome.time = runtime::measure(
      context->device(),
      [&](runtime::Stream stream) {
        call.stream = stream;
        plan.execute(&call);
      },
      options);
  return outcome;
}

Outcome measure_author(const lib::ContextRef& context, const AnyKernel& kernel, const Case& which,
                       const runtime::MeasureOptions& options) {
  const AuthorInstance instance(kernel, which.settings, {}, context);
  Outcome outcome{.kernel = which.kernel, .bytes = instance.bytes_moved()};
  for (const std::string& setting : which.settings) outcome.title += (outcome.title.empty() ? "" : " ") + setting;
  outcome.time = runtime::measure(
      context->device(), [&](runtime::Stream stream) { instance.launch(stream); }, options);
  return outcome;
}

}  // namespace

int bench(const Globals& globals, const BenchRequest& request) {
  const AuthorKernels authors(globals.load);
  if (!request.kernel.empty() && !authors.find(request.kernel)) find_op(request.kernel);  // before anything starts
  const lib::ContextRef context = open_context(globals);
  runtime::Device& device = context->device();
  const std::vector<Case> cases =
      request.kernel.empty() ? standard_cases(device.is_cpu()) : std::vector<Case>{{request.kernel, request.settings}};
  const auto copy_bytes = static_cast<int64_t>(request.copy_bytes > 0 ? request.copy_bytes
                                               : device.is_cpu()      ? 256.0 * (1 << 20)
                                                                      : 2.0 * (1 << 30));
  Copies copies(device, copy_bytes);
  const runtime::MeasureOptions options{.budget_ms = request.budget_ms, .cold = !request.warm};

  Json results = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const Case& which : cases) {
    const AnyKernel* author = authors.find(which.kernel);
    Outcome o = author ? measure_author(context, *author, which, options) : measure_op(context, which, options);
    if (!author && !device.is_cpu()) measure_host(globals, which, &o);
    const double gbps = o.bytes / (o.time.median_ms * 1e6), same = copies.same_size(o.bytes);
    rows.push_back({o.kernel, o.title, format_time(o.time.median_ms), format_time(o.time.q20_ms),
                    format_time(o.time.q80_ms), fmt::format("{:.1f} GB/s", gbps),
                    fmt::format("{:.3f}", gbps / copies.ceiling()), fmt::format("{:.3f}", gbps / same),
                    o.host_us > 0 ? fmt::format("{:.2f} us", o.host_us) : "",
                    o.host_us > 0 ? fmt::format("{:.2f} us", o.host_us - o.launch_us) : "", o.resources});
    results.push_back({{"kernel", o.kernel},
                       {"settings", o.title},
                       {"median_ms", o.time.median_ms},
                       {"q20_ms", o.time.q20_ms},
                       {"q80_ms", o.time.q80_ms},
                       {"samples", o.time.samples_ms.size()},
                       {"bytes", o.bytes},
                       {"gb_per_s", gbps},
                       {"fraction_of_copy", gbps / copies.ceiling()},
                       {"fraction_of_same_size_copy", gbps / same},
                       {"host_us", o.host_us},
                       {"driver_launch_us", o.launch_us},
                       {"resources", o.resources}});
  }
  const runtime::DeviceDescription& about = device.description();
  if (globals.json != "-") {
    if (!globals.quiet)
      fmt::print("{}, {} L2, copy of {}: {:.1f} GB/s\n", about.name, request.warm ? "warm" : "cold",
                 format_bytes(static_cast<double>(copy_bytes)), copies.ceiling());
    print_table(globals,
                {"kernel", "settings", "median", "20 %", "80 %", "rate", "of copy", "of same-size copy", "host",
                 "beyond launch", "resources"},
                rows);
  }
  write_json(globals, {{"device", about.name},
                       {"arch", about.arch},
                       {"threads", about.threads},
                       {"cold", !request.warm},
                       {"copy_bytes", copy_bytes},
                       {"copy_gb_per_s", copies.ceiling()},
                       {"build", runtime::build_id()},
                       {"results", results}});
  return kOk;
}

}  // namespace ligerdsl::cli
