// Measures the host time of one warm execute, for every operation of the table. The driver's share
// is the time of empty kernels with the same numbers of launches and parameters. The difference
// between both times is the library's share.
//
//   execute_time [batches]      JSON on stdout; times in nanoseconds per call
//
// LIGERDSL_LIBCUDA names the driver library; the default is the GPU's. Batches of executes and of
// bare launches alternate. The queue is drained after each batch, so that no call waits for space
// in it. With the tests' fake driver (libfake_cuda.so), the library takes nearly all of the time.
// This command then counts the library's instructions:
//   LIGERDSL_LIBCUDA=... LIGERDSL_LIBCUBLASLT=... valgrind --tool=callgrind
//     --toggle-collect='ligerdsl::lib::execute_entry(*)' execute_time 3
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "lib/abi/entry.h"
#include "lib/abi/handles.h"
#include "lib/instance/op_instance.h"
#include "runtime/cuda/cuda_module.h"
#include "runtime/cuda/driver.h"

namespace {

using namespace ligerdsl;
using runtime::PrimaryContext;
namespace cuda = runtime::cuda;
using Json = nlohmann::ordered_json;

constexpr int kLaunchesAtATime = 240;  // launches per batch; the driver's queue holds many more
constexpr int kWarmUp = 20;

void must(ligerdsl_status_t status) {
  if (status != LIGERDSL_SUCCESS) throw std::runtime_error(ligerdsl_last_error());
}

// Sets LIGERDSL_COMPILER. The library looks for the compiler library next to its own file, but its
// objects are linked into this program, which is in another folder.
void find_compiler() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto file = self.parent_path() / "../lib/libligerdsl-compiler.so";
  if (std::filesystem::exists(file, error)) setenv("LIGERDSL_COMPILER", file.c_str(), 0);
}

// Returns settings so small that every kernel ends before the host continues.
std::vector<std::string> small_sizes(const lib::OpInfo& info) {
  std::vector<std::string> settings;
  for (const char* symbol : info.symbols) {
    const std::string letter = symbol;
    for (const char* size :
         {"N=16", "H=64", "F=64", "V=100", "B=1", "S=16", "A=4", "K=2", "D=64"}) {
      if (size[0] == letter[0] && letter.size() == 1) settings.push_back(size);
    }
  }
  if (info.list_offset >= 0) settings = {"N=1000", "T=1"};
  return settings;
}

// An empty kernel with `slots` 8-byte parameters, launched directly through the driver.
class EmptyKernel {
 public:
  EmptyKernel(const PrimaryContext& context, int slots)
      : context_(context), slots_(static_cast<size_t>(slots), 0) {
    std::string parameters;
    for (int i = 0; i < slots; ++i)
      parameters += (i ? ", .param .u64 p" : ".param .u64 p") + std::to_string(i);
    const runtime::Cubin cubin = runtime::assemble(
        context, ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry empty(" +
                     parameters + ")\n{\n  ret;\n}\n");
    const PrimaryContext::Scope scope(context);
    context.driver().check(context.api().module_load(&module_, cubin.image.data()),
                           "loading the empty kernel");
    context.driver().check(context.api().module_function(&function_, module_, "empty"),
                           "finding the empty kernel");
  }
  ~EmptyKernel() { context_.api().module_unload(module_); }
  EmptyKernel(const EmptyKernel&) = delete;
  EmptyKernel& operator=(const EmptyKernel&) = delete;

  void launch(cuda::Stream stream) {
    const cuda::LaunchConfig config{1, 1, 1, 128, 1, 1, 0, stream, nullptr, 0};
    size_t bytes = slots_.size() * sizeof(uint64_t);
    void* extra[] = {cuda::launch_param_buffer_pointer, slots_.data(),
                     cuda::launch_param_buffer_size, &bytes, cuda::launch_param_end};
    context_.driver().check(context_.api().launch(&config, function_, nullptr, extra),
                            "launching the empty kernel");
  }

 private:
  const PrimaryContext& context_;
  std::vector<uint64_t> slots_;
  cuda::Module module_ = nullptr;
  cuda::Function function_ = nullptr;
};

// Records the number of 8-byte parameter slots of each launch.
class CountingKernel final : public runtime::LoadedKernel {
 public:
  CountingKernel(std::shared_ptr<runtime::LoadedKernel> kernel, std::vector<int>* launches)
      : kernel_(std::move(kernel)), launches_(launches) {
    artifact_ = kernel_->artifact();
    resources_ = kernel_->resources();
  }
  void launch(const uint64_t* slots, const runtime::Grid& grid, runtime::Stream stream) override {
    launches_->push_back(static_cast<int>(artifact_.slots));
    kernel_->launch(slots, grid, stream);
  }

 private:
  std::shared_ptr<runtime::LoadedKernel> kernel_;
  std::vector<int>* launches_;
};

class CountingContext final : public lib::Context {
 public:
  using Context::Context;
  std::shared_ptr<runtime::LoadedKernel> load(const std::string& program,
                                              const program::CompileOptions& options) override {
    return std::make_shared<CountingKernel>(Context::load(program, options), &launches);
  }
  std::vector<int> launches;
};

// Returns the number of parameter slots of each kernel that one execute launches.
std::vector<int> launches_of(const lib::OpInfo& info, const std::vector<std::string>& settings) {
  runtime::DeviceConfig config;
  config.kind = runtime::DeviceKind::cuda;
  const auto context = std::make_shared<CountingContext>(config);
  cli::OpInstance instance(info, settings);
  instance.allocate(context);
  const lib::Plan plan(info, context, instance.desc());
  instance.prepare(plan);
  plan.execute(&instance.call());
  context->device().synchronize_all();
  return context->launches;
}

// An operation that is ready to run through its public handle.
class Ready {
 public:
  Ready(ligerdsl_context_t context, const lib::OpInfo& info,
        const std::vector<std::string>& settings)
      : instance_(info, settings) {
    must(lib::plan_entry(info, context, instance_.desc(), &plan_));
    instance_.allocate(lib::ContextUse(context).ref());
    instance_.prepare(**static_cast<lib::PlanRef*>(
        lib::HandleUse(lib::HandleKind::plan, plan_, "plan").object()));
  }
  ~Ready() { ligerdsl_plan_destroy(plan_); }
  Ready(const Ready&) = delete;
  Ready& operator=(const Ready&) = delete;

  void execute(ligerdsl_stream_t stream) {
    const lib::Call& call = instance_.call();
    must(lib::execute_entry(instance_.info(), plan_, call.args, call.workspace,
                            call.workspace_bytes, stream));
  }

 private:
  cli::OpInstance instance_;
  ligerdsl_plan_t plan_ = nullptr;
};

double batch_ns(int calls, const std::function<void()>& call, const std::function<void()>& drain) {
  drain();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
  drain();
  return taken.count() / calls;
}

Json summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) {
    return std::round(times[static_cast<size_t>(part * static_cast<double>(times.size() - 1))] *
                      10) /
           10;
  };
  return {{"median", at(0.5)}, {"q20", at(0.2)}, {"q80", at(0.8)}, {"min", at(0)}};
}

Json measure(ligerdsl_context_t context, const PrimaryContext& driver, ligerdsl_stream_t stream,
             const lib::OpInfo& info, int batches) {
  const std::vector<std::string> settings = small_sizes(info);
  Json row = {{"op", info.name}, {"settings", settings}};
  std::vector<int> launches;
  try {
    launches = launches_of(info, settings);
  } catch (const runtime::Error& error) {
    if (error.status() != runtime::Status::not_supported) throw;
    row["not_supported"] = error.what();
    return row;
  }
  Ready op(context, info, settings);
  std::vector<std::unique_ptr<EmptyKernel>> empty;
  for (const int slots : launches) empty.push_back(std::make_unique<EmptyKernel>(driver, slots));
  const auto drain = [&] { must(ligerdsl_stream_sync(context, stream)); };
  const auto execute = [&] { op.execute(stream); };
  const auto launch = [&] {
    for (const auto& kernel : empty) kernel->launch(reinterpret_cast<cuda::Stream>(stream));
  };
  const int calls =
      std::max<int>(kLaunchesAtATime / static_cast<int>(std::max<size_t>(launches.size(), 1)), 10);
  std::vector<double> ours, theirs, added;
  // Makes the CUDA context current, as it is in a training program. Otherwise each launch would
  // need two more driver calls.
  const PrimaryContext::Scope scope(driver);
  for (int i = -kWarmUp; i < batches; ++i) {
    const double execute_ns = batch_ns(calls, execute, drain),
                 launch_ns = batch_ns(calls, launch, drain);
    if (i < 0) continue;
    ours.push_back(execute_ns);
    theirs.push_back(launch_ns);
    added.push_back(execute_ns - launch_ns);
  }
  if (cli::OpInstance(info, settings).flops() > 0)
    row["additional"] = "matmuls of a library, in execute_ns alone";
  row["launches"] = launches.size();
  row["parameters"] = launches;
  row["execute_ns"] = summary(ours);
  row["driver_launches_ns"] = summary(theirs);
  row["added_ns"] = summary(added);
  row["added_ns_per_launch"] =
      std::round(summary(added)["median"].get<double>() / static_cast<double>(launches.size()));
  return row;
}

std::string settings_text(const Json& row) {
  std::string text;
  for (const auto& setting : row["settings"]) text.append(" ").append(setting.get<std::string>());
  return text;
}

Json run(int batches) {
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  config.device = {LIGERDSL_CUDA, 0};
  ligerdsl_context_t context = nullptr;
  must(ligerdsl_context_create(&config, &context));
  ligerdsl_stream_t stream = nullptr;  // kernels of the default stream never overlap
  must(ligerdsl_stream_create(context, &stream));
  Json out;
  {
    const PrimaryContext driver(runtime::Driver::shared(), 0);
    out["build"] = ligerdsl_build_info();
    out["device"] = driver.info().name;
    out["driver"] = driver.driver().version();
    out["batches"] = batches;
    for (const lib::OpInfo* info : lib::op_table()) {
      out["rows"].push_back(measure(context, driver, stream, *info, batches));
      const Json& row = out["rows"].back();
      if (row.contains("not_supported")) {
        std::fprintf(stderr, "%-30s not measured: %s\n", info->name,
                     row["not_supported"].get<std::string>().c_str());
        continue;
      }
      std::fprintf(
          stderr, "%-30s %zu launches: execute %7.0f ns, driver %7.0f ns, ours %6.0f ns (%s )\n",
          info->name, row["launches"].get<size_t>(), row["execute_ns"]["median"].get<double>(),
          row["driver_launches_ns"]["median"].get<double>(),
          row["added_ns"]["median"].get<double>(), settings_text(row).c_str());
    }
  }
  must(ligerdsl_stream_destroy(context, stream));
  ligerdsl_context_destroy(context);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  find_compiler();
  try {
    std::printf("%s\n", run(argc > 1 ? std::max(std::atoi(argv[1]), 1) : 101).dump(1).c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "execute_time: %s\n", error.what());
    return 1;
  }
}
