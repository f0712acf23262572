// `ligerdsl doctor` reports which parts of the library work on this machine, and why the other
// parts do not. Returns exit code 1 if one of these fails: the compiler or its worker, the CPU, a
// GPU with a driver, a required cache.
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "lib/abi/build_info.h"
#include "lib/abi/structs.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/environment.h"
#include "lib/cli/support/examine.h"
#include "lib/instance/op_instance.h"
#include "lib/text/printable.h"
#include "runtime/cuda/driver.h"
#include "runtime/environment/log.h"
#include "runtime/environment/options.h"

namespace ligerdsl::cli {

namespace {

// Compiles and runs a kernel and checks its results.
std::string run_vector_add(const Globals& globals) {
  const lib::ContextRef context = open_context(globals);
  OpInstance instance(find_op("vector_add"), {"N=1000"});
  instance.allocate(context);
  const lib::Plan plan(instance.info(), context, instance.desc());
  instance.prepare(plan);
  plan.execute(&instance.call());
  context->device().synchronize(nullptr);
  const auto values = [&](const char* name) {
    return to_doubles(instance.read(*instance.find(name)), DType::f32);
  };
  const auto a = values("a"), b = values("b"), out = values("out");
  for (size_t i = 0; i < out.size(); ++i) {
    const auto expected = static_cast<float>(a[i] + b[i]);
    if (static_cast<float>(out[i]) != expected) {
      throw Failure(kCheckFailed,
                    fmt::format("vector_add[{}]: expected {}, got {}", i, expected, out[i]));
    }
  }
  return fmt::format("vector_add compiled, ran and returned correct results on {}",
                     context->device().description().name);
}

std::string describe_driver() {
  const auto driver = runtime::Driver::shared();
  std::string text = fmt::format("{}, version {}.{}, accepts PTX {}.{}", driver->path(),
                                 driver->version() / 1000, driver->version() % 1000 / 10,
                                 driver->ptx_version() / 10, driver->ptx_version() % 10);
  for (int32_t i = 0; i < driver->device_count(); ++i) {
    const runtime::GpuInfo gpu = driver->device(i);
    text += fmt::format("; cuda:{} {} ({}, {})", i, gpu.name, gpu.arch,
                        format_bytes(static_cast<double>(gpu.memory_bytes)));
  }
  return text;
}

// A machine without a GPU is no failure. If the machine has a GPU driver, a GPU on which kernels do
// not run is a failure.
std::vector<Finding> examine(const Globals& globals) {
  std::vector<Finding> findings;
  findings.push_back(
      {"library", Finding::State::works,
       fmt::format("version {}.{}.{}, build {}", LIGERDSL_VERSION_MAJOR, LIGERDSL_VERSION_MINOR,
                   LIGERDSL_VERSION_PATCH, lib::build_info())});
  std::shared_ptr<runtime::CompilerLibrary> compiler;
  findings.push_back(try_out("compiler", true, [&] {
    compiler = open_compiler();
    return fmt::format("{}, LLVM {}, host {}", compiler->path(), compiler->llvm_version(),
                       compiler->host_cpu());
  }));
  if (compiler) findings.push_back(examine_compile_worker(*compiler));
  findings.push_back(try_out("cpu", true, [&] {
    Globals cpu = globals;
    cpu.device = "cpu";
    return run_vector_add(cpu);
  }));
  findings.push_back(examine_cblas());
  const Finding driver = try_out("cuda driver", false, describe_driver);
  findings.push_back(driver);
  if (driver.state == Finding::State::works) {
    findings.push_back(try_out("gpu", true, [&] {
      Globals gpu = globals;
      gpu.device = globals.device == "cpu" ? "cuda:0" : globals.device;
      return run_vector_add(gpu);
    }));
  }
  findings.push_back(examine_cublaslt());
  findings.push_back(examine_cache());
  for (const Finding& program : examine_programs()) findings.push_back(program);
  if (const std::string& problem = runtime::log_file_problem(); !problem.empty())
    findings.push_back({"environment", Finding::State::absent, problem, false});
  for (const std::string& problem : runtime::options().problems)
    findings.push_back({"environment", Finding::State::absent, problem, false});
  return findings;
}

const char* word_of(const Finding& finding) {
  if (finding.state == Finding::State::works) return "works";
  if (finding.state == Finding::State::off) return "off";
  if (finding.subject == "environment") return "wrong";
  return finding.needed ? "BROKEN" : "absent";
}

void print(const Globals& globals, const Finding& finding) {
  const std::string word = fmt::format("{:<6}", word_of(finding));
  const bool works = finding.state == Finding::State::works;
  print_text(fmt::format("{:<12} {}  {}{}\n", finding.subject,
                         works ? good(globals, word) : bad(globals, word), printable(finding.text),
                         finding.remedy.empty() ? "" : "; " + printable(finding.remedy)));
}

// Shortens a long path, because it would push the next column out of the terminal window. --verbose
// and --json show the whole path.
std::string cell_of(const std::string& value) {
  constexpr size_t kWidest = 60;
  if (columns(printable_line(value)) <= kWidest) return value;
  return "..." + value.substr(value.size() - std::min(value.size(), kWidest - 3));
}

}  // namespace

int doctor(const Globals& globals) {
  bool healthy = true;
  Json result = {{"findings", Json::array()}, {"environment", Json::array()}};
  for (const Finding& finding : examine(globals)) {
    const bool works = finding.state == Finding::State::works;
    healthy = healthy && (works || !finding.needed);
    if (globals.json != "-") print(globals, finding);
    result["findings"].push_back({{"subject", finding.subject},
                                  {"works", works},
                                  {"state", word_of(finding)},
                                  {"text", finding.text},
                                  {"remedy", finding.remedy}});
  }
  std::vector<std::vector<std::string>> rows;
  for (const runtime::OptionInfo& option : runtime::option_table()) {
    const char* value = std::getenv(option.name);
    const std::string text = value ? value : fmt::format("({})", option.default_value);
    rows.push_back({option.name, globals.verbose ? text : cell_of(text), option.help});
    result["environment"].push_back(
        {{"name", option.name}, {"value", value ? Json(value) : Json()}, {"help", option.help}});
  }
  if (globals.json != "-" && !globals.quiet) {
    print_text("\n");
    print_table(globals, {"variable", "value", "meaning"}, rows);
  }
  write_json(globals, result);
  return healthy ? kOk : kCheckFailed;
}

}  // namespace ligerdsl::cli
