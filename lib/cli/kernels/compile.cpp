// `ligerdsl compile` prints a kernel at a chosen stage of compilation, for a device that need not
// be present.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "lib/abi/launcher.h"
#include "lib/abi/structs.h"
#include "lib/cli/kernels/assemble.h"
#include "lib/cli/kernels/authors.h"
#include "lib/cli/kernels/compiled_kernel.h"
#include "lib/cli/kernels/launch_rule.h"
#include "lib/cli/kernels/tuned_author.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/environment.h"
#include "lib/instance/op_instance.h"
#include "lib/text/nearest.h"
#include "lib/text/numbers.h"
#include "program/print.h"
#include "program/serialize.h"
#include "runtime/compile/reproducer.h"

namespace ligerdsl::cli {

namespace {

using Recorded = RecordedKernel;

bool is_reproducer(const std::string& kernel) {
  return kernel.ends_with(runtime::kReproducerSuffix);
}

// Reads a reproducer: the program that the compiler failed on, and its options.
Recorded from_reproducer(const CompileRequest& request) {
  if (!request.target.empty() || !request.settings.empty())
    throw Failure(kUsage,
                  "a reproducer contains its target and settings; omit --target and name=value");
  const runtime::Reproducer kept = runtime::read_reproducer(request.kernel);
  if (kept.build_id != runtime::build_id())
    print_error(
        fmt::format("the reproducer was written by build {}, and this is build {}: the error may "
                    "not occur again",
                    kept.build_id, runtime::build_id()));
  return {kept.program, program::parseOptions(kept.options)};
}

// Loads a kernel from a --load file. Its launch rule gives the launch options, which settings may
// override.
void load_author(const AnyKernel& kernel, const std::vector<std::string>& settings,
                 lib::Context& context) {
  std::map<std::string, std::string> rest;
  const MetaValues meta = take_meta(kernel, tuned_settings(context, kernel, settings), &rest);
  const Target target = context.machine();
  const program::Program program = program::parseProgram(kernel.program_bytes(meta, target));
  const lib::Launcher launcher(context, program,
                               launch_of(kernel, meta, program, std::move(rest), target));
}

std::vector<Recorded> record(const Globals& globals, const CompileRequest& request,
                             const program::CompileOptions& base) {
  const bool gpu = base.target == program::Target::nvptx;
  const auto context = std::make_shared<RecordingContext>(base, unused_cpu(globals));
  load_kernels(AuthorKernels(globals.load), request.kernel, request.settings, context);
  return choose_variant(context->recorded, request.variant, gpu);
}

std::string emit(runtime::CompilerLibrary* compiler, const Recorded& recorded,
                 const std::string& stage) {
  if (stage == "program") return program::print(program::parseProgram(recorded.program));
  const auto text_of = [&](const std::string& which) {
    program::CompileOptions options = recorded.options;
    options.emit = which;
    return program::parseArtifact(compiler->compile(recorded.program, program::serialize(options)))
        .code;
  };
  if (stage == "cubin" || stage == "sass" || stage == "resources") {
    if (recorded.options.target != program::Target::nvptx)
      throw Failure(
          kUsage,
          fmt::format("--emit {}: expected a GPU target, got cpu; pass --target sm_90a", stage));
    return assemble(text_of("ptx"), recorded.options.arch, stage);
  }
  const std::string text = text_of(stage);
  if (text.empty()) {
    throw Failure(
        kUsage,
        fmt::format(
            "--emit {}: a compile for {} has no such stage; choose another --emit or --target",
            stage,
            recorded.options.target == program::Target::cpu ? "cpu" : recorded.options.arch));
  }
  return text;
}

// Writes the text to --output. Without --output, prints it to standard output, unless the JSON is
// printed there.
int write_result(const Globals& globals, const CompileRequest& request, const std::string& text,
                 const Json& result) {
  if (!request.output.empty()) {
    write_file(request.output, text);
  } else if (globals.json != "-") {
    print_text(text);
  }
  write_json(globals, result);
  return kOk;
}

// Prints the schedules of an operation's kernels for the target, one line of settings per kernel.
// Compiles nothing.
int print_configs(const Globals& globals, const CompileRequest& request,
                  const std::string& target) {
  if (AuthorKernels(globals.load).find(request.kernel))
    throw Failure(kUsage, fmt::format("--emit config: expected an operation of the library, got "
                                      "the loaded kernel {}; run `ligerdsl explain` instead",
                                      request.kernel));
  const auto context =
      std::make_shared<RecordingContext>(options_for_target(target), unused_cpu(globals));
  OpInstance instance(find_op(request.kernel), request.settings);
  lib::check_desc(instance.info(), instance.desc());
  static_cast<void>(instance.plan(context));
  if (instance.config().kernels().empty())
    throw Failure(kUsage, fmt::format("{} has no schedule to choose", request.kernel));
  std::string text;
  Json result = Json::array();
  for (const ConfigSettings::Kernel& kernel : instance.config().kernels()) {
    text += kernel.name;
    Json fields = Json::array();
    for (const MetaField& field : kernel.fields) {
      text += fmt::format(" config.{}={}", field.name, field.value);
      fields.push_back({{"name", field.name},
                        {"type", field.type},
                        {"value", field.value},
                        {"choices", field.choices},
                        {"changes", name(field.bits)}});
    }
    text += "\n";
    result.push_back({{"kernel", kernel.name}, {"target", target}, {"config", fields}});
  }
  return write_result(globals, request, text, result);
}

}  // namespace

void load_kernels(const AuthorKernels& authors, const std::string& kernel,
                  const std::vector<std::string>& settings, const lib::ContextRef& context) {
  if (const AnyKernel* author = authors.find(kernel))
    return load_author(*author, settings, *context);
  OpInstance instance(find_op(kernel), settings);
  lib::check_desc(instance.info(), instance.desc());
  static_cast<void>(instance.plan(context));
}

const std::vector<std::string>& compile_stages() {
  static const std::vector<std::string> stages = {"config", "program",   "tile", "tgpu",
                                                  "loops",  "llvm",      "ptx",  "asm",
                                                  "cubin",  "resources", "sass", "remarks"};
  return stages;
}

int compile(const Globals& globals, const CompileRequest& request) {
  std::string target = request.target;
  if (is_reproducer(request.kernel)) {
    const program::CompileOptions options = from_reproducer(request).options;
    target = options.target == program::Target::cpu ? "cpu" : options.arch;
  }
  static const std::set<std::string> gpu_stages = {"tgpu", "ptx", "cubin", "sass", "resources"};
  if (target.empty() && globals.device == "cpu" && gpu_stages.count(request.stage))
    target = "sm_90a";
  if (target.empty())
    target = globals.device == "cpu" ? "cpu" : open_context(globals)->device().description().arch;
  std::string stage = request.stage;
  if (stage.empty()) stage = target == "cpu" ? "asm" : "ptx";
  const std::vector<std::string>& stages = compile_stages();
  if (!std::count(stages.begin(), stages.end(), stage))
    throw Failure(kUsage, fmt::format("--emit: unknown stage '{}'{}; expected one of {}", stage,
                                      did_you_mean(stage, stages), fmt::join(stages, ", ")));
  if (stage == "config") {
    if (is_reproducer(request.kernel))
      throw Failure(kUsage,
                    "--emit config: a reproducer is one program and has no schedule to choose");
    return print_configs(globals, request, target);
  }
  const std::vector<Recorded> recorded = is_reproducer(request.kernel)
                                             ? std::vector<Recorded>{from_reproducer(request)}
                                             : record(globals, request, options_for_target(target));
  const auto compiler = stage == "program" ? nullptr : open_compiler();
  std::string text;
  Json result = Json::array();
  for (const Recorded& one : recorded) {
    const std::string name = program::parseProgram(one.program).name;
    std::string code;
    std::vector<program::Remark> remarks;
    try {
      if (stage == "remarks")
        remarks = compiled(*compiler, one).remarks;
      else
        code = emit(compiler.get(), one, stage);
    } catch (const runtime::Error& error) {
      throw Failure(kNothingFound, fmt::format("{}: {}", name, error.what()));
    }
    if (stage == "remarks") code = text_of(remarks);
    if (recorded.size() > 1 && stage != "cubin") text += fmt::format("// kernel {}\n", name);
    text += code;
    result.push_back({{"kernel", name},
                      {"target", target},
                      {"stage", stage},
                      {"text", stage == "cubin" ? "" : code}});
    if (stage == "remarks") result.back()["remarks"] = json_of(remarks);
  }
  if (recorded.size() > 1 && stage == "cubin")
    throw Failure(kUsage, fmt::format("--emit cubin: expected an operation with one kernel, {} has "
                                      "{}; --emit ptx prints all of them",
                                      request.kernel, recorded.size()));
  return write_result(globals, request, text, result);
}

}  // namespace ligerdsl::cli
