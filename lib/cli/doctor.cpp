// `ligerdsl doctor`: what works here, and why the rest does not.
#include <fmt/format.h>

#include <cstdlib>
#include <functional>

#include "lib/cli/commands.h"
#include "lib/cli/environment.h"
#include "lib/cli/op_instance.h"
#include "lib/src/build_info.h"
#include "lib/src/structs.h"
#include "runtime/disk_cache.h"
#include "runtime/driver.h"
#include "runtime/options.h"

namespace ligerdsl::cli {

namespace {

struct Finding {
  std::string subject;
  bool works;
  std::string text;
};

// The finding of something that throws when it does not work.
Finding try_out(const std::string& subject, const std::function<std::string()>& look) {
  try {
    return {subject, true, look()};
  } catch (const std::exception& error) {
    return {subject, false, error.what()};
  }
}

// A kernel compiled and run for real.
std::string run_vector_add(const Globals& globals) {
  const lib::ContextRef context = open_context(globals);
  OpInstance instance(find_op("vector_add"), {"N=1000"});
  instance.allocate(context);
  const lib::Plan plan(instance.info(), context, instance.desc());
  instance.prepare(plan);
  plan.execute(&instance.call());
  context->device().synchronize(nullptr);
  const auto values = [&](const char* name) { return to_doubles(instance.read(*instance.find(name)), DType::f32); };
  const auto a = values("a"), b = values("b"), out = values("out");
  for (size_t i = 0; i < out.size(); ++i) {
    const auto expected = static_cast<float>(a[i] + b[i]);
    if (static_cast<float>(out[i]) != expected) {
      throw Failure(kCheckFailed, fmt::format("vector_add[{}]: expected {}, got {}", i, expected, out[i]));
    }
  }
  return fmt::format("vector_add compiled, ran and is right on {}", context->device().description().name);
}

std::string describe_driver() {
  const auto driver = runtime::Driver::shared();
  std::string text = fmt::format("{}, version {}.{}, accepts PTX {}.{}", driver->path(), driver->version() / 1000,
                                 driver->version() % 1000 / 10, driver->ptx_version() / 10, driver->ptx_version() % 10);
  for (int32_t i = 0; i < driver->device_count(); ++i) {
    const runtime::GpuInfo gpu = driver->device(i);
    text += fmt::format("; cuda:{} {} ({}, {})", i, gpu.name, gpu.arch,
                        format_bytes(static_cast<double>(gpu.memory_bytes)));
  }
  return text;
}

}  // namespace

int doctor(const Globals& globals) {
  std::vector<Finding> findings;
  findings.push_back({"library", true,
                      fmt::format("version {}.{}.{}, build {}", LIGERDSL_VERSION_MAJOR, LIGERDSL_VERSION_MINOR,
                                  LIGERDSL_VERSION_PATCH, lib::build_info())});
  findings.push_back(try_out("compiler", [] {
    const auto compiler = open_compiler();
    return fmt::format("{}, LLVM {}, host {}", compiler->path(), compiler->llvm_version(), compiler->host_cpu());
  }));
  findings.push_back(try_out("cpu", [&] {
    Globals cpu = globals;
    cpu.device = "cpu";
    return run_vector_add(cpu);
  }));
  const Finding driver = try_out("cuda driver", describe_driver);
  findings.push_back(driver);
  if (driver.works) {
    findings.push_back(try_out("gpu", [&] {
      Globals gpu = globals;
      gpu.device = globals.device == "cpu" ? "cuda:0" : globals.device;
      return run_vector_add(gpu);
    }));
  }
  findings.push_back(try_out("cache", [&] { return runtime::default_cache_directory(runtime::options()); }));
  for (const std::string& problem : runtime::options().problems) findings.push_back({"environment", false, problem});

  // Without a GPU the library is whole: only the CPU and the compiler must work.
  bool healthy = true;
  Json result = {{"findings", Json::array()}, {"environment", Json::array()}};
  for (const Finding& finding : findings) {
    const bool needed = finding.subject == "compiler" || finding.subject == "cpu" || finding.subject == "gpu";
    healthy = healthy && (finding.works || !needed);
    if (globals.json != "-") {
      fmt::print("{:<12} {}  {}\n", finding.subject,
                 finding.works ? good(globals, "works") : bad(globals, needed ? "BROKEN" : "absent"), finding.text);
    }
    result["findings"].push_back({{"subject", finding.subject}, {"works", finding.works}, {"text", finding.text}});
  }
  std::vector<std::vector<std::string>> rows;
  for (const runtime::OptionInfo& option : runtime::option_table()) {
    const char* value = std::getenv(option.name);
    rows.push_back({option.name, value ? value : fmt::format("({})", option.default_value), option.help});
    result["environment"].push_back(
        {{"name", option.name}, {"value", value ? Json(value) : Json()}, {"help", option.help}});
  }
  if (globals.json != "-" && !globals.quiet) {
    fmt::print("\n");
    print_table(globals, {"variable", "value", "what"}, rows);
  }
  write_json(globals, result);
  return healthy ? kOk : kCheckFailed;
}

}  // namespace ligerdsl::cli
