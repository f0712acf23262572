// `ligerdsl run`: one call on .npy inputs or random numbers, outputs written and compared with float64.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <system_error>

#include "lib/cli/authors.h"
#include "lib/cli/check.h"
#include "lib/cli/commands.h"
#include "lib/cli/environment.h"
#include "lib/cli/op_instance.h"
#include "lib/src/structs.h"

namespace ligerdsl::cli {

namespace {

struct Output {
  std::string name;
  DType type;
  std::vector<int64_t> shape;
  std::string bytes, expected;  // expected: empty without --check
};

std::map<std::string, Array> read_inputs(const std::vector<std::string>& specs) {
  std::map<std::string, Array> inputs;
  for (const std::string& spec : specs) {
    const size_t equal = spec.find('=');
    if (equal == std::string::npos) throw Failure(kUsage, fmt::format("--in {}: expected name=FILE.npy", spec));
    const std::string name = spec.substr(0, equal);
    if (inputs.count(name)) throw Failure(kUsage, fmt::format("--in {}: given twice", name));
    inputs[name] = read_npy(spec.substr(equal + 1));
  }
  return inputs;
}

// One instance of an operation, executed on a context.
void execute(OpInstance& instance, const lib::ContextRef& context, const std::map<std::string, Array>& inputs) {
  lib::check_desc(instance.info(), instance.desc());
  for (const auto& [name, array] : inputs) instance.take_shape(name, array);
  instance.allocate(context);
  for (const auto& [name, array] : inputs) {
    OpInstance::Slot* slot = instance.find(name);
    if (elements(slot->shape) != elements(array.shape)) {
      throw Failure(kUsage, fmt::format("{}: the array has {} elements, {} are needed", name, elements(array.shape),
                                        elements(slot->shape)));
    }
    instance.write(*slot, convert(array, slot->dtype));
  }
  const lib::Plan plan(instance.info(), context, instance.desc());
  instance.prepare(plan);
  plan.execute(&instance.call());
  context->check(nullptr);
}

std::vector<Output> run_op(const lib::ContextRef& context, const RunRequest& request,
                           const std::map<std::string, Array>& inputs) {
  OpInstance instance(find_op(request.kernel), request.settings);
  execute(instance, context, inputs);
  std::vector<Output> outputs;
  for (const OpInstance::Slot& slot : instance.slots()) {
    if (!slot.info || slot.info->direction == lib::Direction::in) continue;
    outputs.push_back({slot.name, slot.dtype, slot.shape, instance.read(slot), ""});
  }
  if (!request.check) return outputs;
  OpInstance reference(find_op(request.kernel), request.settings);
  execute(reference, interpreter_context(context->machine()), inputs);
  for (Output& output : outputs) output.expected = reference.read(*reference.find(output.name));
  return outputs;
}

std::vector<Output> run_author(const lib::ContextRef& context, const AnyKernel& kernel, const RunRequest& request,
                               const std::map<std::string, Array>& inputs) {
  const AuthorInstance instance(kernel, request.settings, inputs, context);
  instance.launch(nullptr);
  context->device().synchronize(nullptr);
  std::vector<Output> outputs;
  for (const AuthorInstance::Argument& argument : instance.arguments()) {
    if (argument.written)
      outputs.push_back({argument.name, argument.type.dtype, argument.shape, instance.read(argument), ""});
  }
  if (!request.check) return outputs;
  const AuthorInstance reference(kernel, request.settings, inputs, interpreter_context(context->machine()));
  reference.launch(nullptr);
  size_t next = 0;
  for (const AuthorInstance::Argument& argument : reference.arguments()) {
    if (argument.written) outputs[next++].expected = reference.read(argument);
  }
  return outputs;
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw Failure(kNothingFound, fmt::format("--out-dir {}: {}", path, error.message()));
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

int run(const Globals& globals, const RunRequest& request) {
  const AuthorKernels authors(globals.load);
  const AnyKernel* author = authors.find(request.kernel);
  if (!author) find_op(request.kernel);  // a wrong name is reported before anything starts
  const std::map<std::string, Array> inputs = read_inputs(request.inputs);
  const lib::ContextRef context = open_context(globals);
  const std::vector<Output> outputs =
      author ? run_author(context, *author, request, inputs) : run_op(context, request, inputs);

  if (!request.output_dir.empty()) make_folder(request.output_dir);
  bool right = true;
  Json result = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const Output& output : outputs) {
    if (!request.output_dir.empty()) {
      write_npy(request.output_dir + "/" + output.name + ".npy", from_memory(output.bytes, output.type, output.shape));
    }
    Json entry = {{"output", output.name}, {"dtype", name(output.type)}, {"shape", output.shape}};
    std::vector<std::string> row = {output.name, name(output.type), shape_text(output.shape), "", ""};
    if (request.check) {
      const Difference d = compare(output.bytes, output.expected, output.type);
      right = right && d.beyond == 0;
      row[3] = fmt::format("{:.2e}", d.worst);
      row[4] = d.beyond == 0
                   ? good(globals, "right")
                   : bad(globals, fmt::format("WRONG: {} of {} beyond {}; [{}] is {:g}, expected {:g}", d.beyond,
                                              d.elements, gate_text(output.type), d.first, d.got, d.expected));
      entry["max_error_of_scale"] = d.worst;
      entry["beyond_gate"] = d.beyond;
    }
    rows.push_back(row);
    result.push_back(entry);
  }
  if (globals.json != "-") {
    print_table(globals,
                {"output", "dtype", "shape", request.check ? "max error / max" : "", request.check ? "check" : ""},
                rows);
  }
  write_json(globals, result);
  return right ? kOk : kCheckFailed;
}

}  // namespace ligerdsl::cli
