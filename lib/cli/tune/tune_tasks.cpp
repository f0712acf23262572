#include "lib/cli/tune/tune_tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

#include "lib/abi/structs.h"
#include "lib/cli/bench/bench_cases.h"
#include "lib/cli/cache/warm_context.h"
#include "lib/cli/kernels/given_config.h"
#include "lib/cli/support/environment.h"
#include "lib/instance/op_instance.h"

namespace ligerdsl::cli {

namespace {

using Settings = std::vector<std::string>;

// Expands "H=4096,8192 N=64" to two lists of settings. A value may have an interval:
// "y=64:0..3,128:0..3" has two values.
std::vector<Settings> sweep(const Settings& settings) {
  std::vector<Settings> all = {{}};
  for (const std::string& setting : settings) {
    const size_t equal = setting.find('=');
    std::vector<std::string> values;
    std::string_view rest = equal == std::string::npos
                                ? std::string_view()
                                : std::string_view(setting).substr(equal + 1);
    while (rest.find(',') != std::string_view::npos) {
      values.emplace_back(rest.substr(0, rest.find(',')));
      rest.remove_prefix(rest.find(',') + 1);
    }
    values.emplace_back(rest);
    std::vector<Settings> longer;
    for (const Settings& one : all) {
      for (const std::string& value : values) {
        longer.push_back(one);
        longer.back().push_back(equal == std::string::npos ? setting
                                                           : setting.substr(0, equal + 1) + value);
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::vector<BenchCase> cases_of(const Globals& globals, const TuneRequest& request) {
  std::vector<BenchCase> cases;
  if (!request.kernel.empty()) {
    for (Settings& settings : sweep(request.settings))
      cases.push_back({request.kernel, std::move(settings)});
    return cases;
  }
  std::vector<std::string> sets = request.sets;
  if (request.all) sets = bench_set_names();
  for (const std::string& set : sets) {
    for (BenchCase& one : bench_cases(set, {.cpu = globals.device == "cpu", .rows = request.rows}))
      cases.push_back(std::move(one));
  }
  return cases;
}

// Makes contexts that compile for the worker's device, which this process does not open. A compile
// in its own process may take `seconds`, and ends early when the descriptor `stop` becomes
// readable.
class Compilers {
 public:
  Compilers(const Globals& globals, const Json& device, double seconds, int stop)
      : config_(device_config([&] {
          Globals cpu = globals;
          cpu.device = "cpu";
          return cpu;
        }())) {
    runtime::CompileIsolation isolation = config_.compiler->isolation();
    isolation.seconds = std::min(isolation.seconds, static_cast<int32_t>(std::ceil(seconds)));
    isolation.stop = stop;
    config_.compiler->isolate(isolation);
    gpu_ = globals.device != "cpu";
    if (!gpu_) return;
    base_ = options_for_target(device.at("arch"));
    base_.ptx_version = device.at("ptx");
    units_ = device.at("units");
    config_.num_threads = 1;
  }
  std::shared_ptr<WarmContext> context() const {
    if (gpu_) return std::make_shared<WarmTarget>(config_, base_, units_);
    return std::make_shared<WarmContext>(config_);
  }

 private:
  runtime::DeviceConfig config_;
  bool gpu_ = false;
  program::CompileOptions base_;
  int units_ = 0;
};

std::string digest_of_files(const std::vector<std::string>& files) {
  runtime::Sha256 hash;
  for (const std::string& name : files) {
    std::ifstream file(name, std::ios::binary);
    hash.field(std::string{std::istreambuf_iterator<char>(file), {}});
  }
  return files.empty() ? "" : runtime::hex(hash.finish());
}

// Returns a predicted relative time. More threads per SM hide more memory latency, up to
// kEnoughThreads.
double predicted(const Target& target, const MetaValues& config) {
  if (!target.is_gpu()) return 1;
  const auto number = [&](const char* name, double missing) {
    const auto found = config.find(name);
    return found == config.end() ? missing : std::strtod(found->second.c_str(), nullptr);
  };
  constexpr double kEnoughThreads = 1024;
  const double threads = 32 * number("num_warps", 4), floor = number("min_ctas_per_sm", 0);
  const double ctas =
      std::max(floor, std::floor(target.threads_per_sm / std::max(threads, 1.0) / 2));
  return kEnoughThreads / std::min(kEnoughThreads, std::max(ctas, 1.0) * threads);
}

bool is_op(const std::string& name) {
  return std::any_of(lib::op_table().begin(), lib::op_table().end(),
                     [&](const lib::OpInfo* op) { return op->name == name; });
}

struct NothingToChoose : Failure {
  using Failure::Failure;
};

void check_problem(const lib::OpInfo& info, const OpInstance& instance, const Settings& settings) {
  for (const std::string& setting : settings) {
    if (setting.starts_with("config."))
      throw Failure(kUsage,
                    fmt::format("tune: '{}' fixes a field that tune searches; omit it", setting));
  }
  for (const char* letter : info.symbols) {
    if (instance.size(letter) == 0)
      throw Failure(kUsage,
                    fmt::format("tune: expected {} above 0, got 0: {} then has nothing to measure",
                                letter, info.name));
  }
}

TuneTask op_task(const std::shared_ptr<const Compilers>& compilers, const TuneRequest& request,
                 const AuthorKernels& authors, const BenchCase& which) {
  const lib::OpInfo& info = find_op(which.kernel);
  const auto context = compilers->context();
  OpInstance instance(info, which.settings);
  lib::check_desc(info, instance.desc());
  check_problem(info, instance, which.settings);
  KeptQuestions asked;
  context->set_kernel_configs(&asked);
  const std::unique_ptr<lib::Plan> plan = instance.plan(context);
  if (asked.all().empty())
    throw NothingToChoose(kUsage, fmt::format("{} has no schedule to choose", which.kernel));
  const auto question = asked.all().at(instance.schedule(*plan));
  if (question->kernel() != which.kernel && is_op(question->kernel()))
    throw NothingToChoose(kUsage,
                          fmt::format("{} takes its schedule from {}; tune that operation instead",
                                      which.kernel, question->kernel()));
  const Target target = context->machine();
  TuneTask task{.operation = which.kernel,
                .kernel = question->kernel(),
                .version = question->version(),
                .options = question->options(),
                .problems = {which.settings},
                .check_with = request.check_with,
                .space = tune::Space(
                    question->heuristic(),
                    [question](const MetaValues& values) { return question->refusal(values); },
                    request.bits)};
  task.built = [question](const MetaValues& values) { return question->built(values); };
  task.compile = [compilers, &authors, which](const MetaValues& values) {
    load_kernels(authors, which.kernel, which.settings, values, compilers->context());
  };
  task.predicted = [target, space = task.space](const tune::Config& config) {
    return predicted(target, space.values(config));
  };
  return task;
}

TuneTask author_task(const std::shared_ptr<const Compilers>& compilers, const TuneRequest& request,
                     const AuthorKernels& authors, const AnyKernel& kernel,
                     const Settings& settings) {
  std::vector<MetaField> fields = kernel.fields();
  std::map<std::string, std::string> rest;
  MetaValues given = take_meta(kernel, settings, &rest);
  int64_t choosable = 0;
  for (MetaField& field : fields) {
    if (given.count(field.name)) field.value = given[field.name];
    choosable += field.bits != Bits::fixed;
  }
  std::string arguments;
  for (const auto& [name, value] : rest) arguments += name + "=" + value + " ";
  const std::string options = tuned_options(fields, arguments);
  if (choosable == 0)
    throw Failure(
        kUsage,
        fmt::format(
            "{} has no schedule to choose; give a field choices, such as v(\"warps\", warps, "
            "powers_of_two(1, 16), Bits::row)",
            kernel.name()));
  const Target target = compilers->context()->machine();
  const auto refusal = [&kernel, settings, target](const MetaValues& values) -> std::string {
    try {
      static_cast<void>(AuthorCall(kernel, with_config(settings, values), {}, target));
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  };
  TuneTask task{.operation = kernel.name(),
                .kernel = kernel.name(),
                .options = options,
                .problems = {settings},
                .check_with = request.check_with,
                .space = tune::Space(std::move(fields), refusal, request.bits)};
  task.built = [&kernel, settings, target](const MetaValues& values) {
    const AuthorCall call(kernel, with_config(settings, values), {}, target);
    return lib::built_text(call.program(), call.launch(), target.is_gpu());
  };
  task.compile = [compilers, &authors, &kernel, settings](const MetaValues& values) {
    load_kernels(authors, kernel.name(), settings, values, compilers->context());
  };
  task.predicted = [target, space = task.space](const tune::Config& config) {
    return predicted(target, space.values(config));
  };
  return task;
}

}  // namespace

std::vector<TuneTask> tune_tasks(const Globals& globals, const TuneRequest& request,
                                 const AuthorKernels& authors, const Json& device, int stop) {
  const auto compilers =
      std::make_shared<const Compilers>(globals, device, request.timeout_seconds, stop);
  std::vector<TuneTask> tasks;
  const auto add = [&](const BenchCase& which) {
    const AnyKernel* author = authors.find(which.kernel);
    TuneTask task = author ? author_task(compilers, request, authors, *author, which.settings)
                           : op_task(compilers, request, authors, which);
    task.loaded = author ? digest_of_files(globals.load) : "";
    const auto same = std::find_if(tasks.begin(), tasks.end(), [&](const TuneTask& other) {
      return !author && other.operation == task.operation && other.options == task.options;
    });
    if (same == tasks.end())
      tasks.push_back(std::move(task));
    else if (std::find(same->problems.begin(), same->problems.end(), task.problems.front()) ==
             same->problems.end())
      same->problems.push_back(std::move(task.problems.front()));
  };
  for (const BenchCase& which : cases_of(globals, request)) {
    try {
      add(which);
    } catch (const NothingToChoose&) {
      if (!request.kernel.empty()) throw;  // a set may contain operations that cannot be tuned
    }
  }
  return tasks;
}

}  // namespace ligerdsl::cli
