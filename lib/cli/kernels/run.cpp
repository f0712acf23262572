// `ligerdsl run` makes one call on .npy inputs or random numbers, writes outputs, and can compare
// them with float64 references.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <system_error>

#include "lib/cli/kernels/authors.h"
#include "lib/cli/kernels/check.h"
#include "lib/cli/kernels/inputs.h"
#include "lib/cli/kernels/run_op.h"
#include "lib/cli/kernels/tuned_author.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/environment.h"

namespace ligerdsl::cli {

namespace {

// With --check, runs the interpreter first, because it reports a wrong index with the author's
// line. On a device a wrong index is undefined behaviour.
std::vector<RunOutput> run_author(const lib::ContextRef& context, const AnyKernel& kernel,
                                  const RunRequest& request,
                                  const std::map<std::string, Array>& inputs) {
  const AuthorCall call(kernel, tuned_settings(*context, kernel, request.settings), inputs,
                        context->machine());
  const Evaluations evaluations = request.check ? Evaluations(call) : Evaluations();
  const AuthorInstance instance(call, context);
  instance.launch(nullptr);
  context->device().synchronize(nullptr);
  std::vector<RunOutput> outputs;
  std::vector<Interpreted> rounded;  // with the kernel's roundings; computed if an output needs it
  for (size_t i = 0; i < call.arguments().size(); ++i) {
    const AuthorArgument& argument = call.arguments()[i];
    if (!argument.written) continue;
    outputs.push_back(
        {argument.name, argument.type.dtype, argument.shape, instance.read(i), {}, {}});
    if (!request.check) continue;
    outputs.back().difference = evaluations.compare(i, outputs.back().bytes, argument.type.dtype);
    outputs.back().unwritten = evaluations.exact()[i].unwritten;
    Difference& difference = outputs.back().difference;
    if (!difference.overflow) continue;
    if (rounded.empty()) rounded = interpret(call, Rounding::every_operation);
    const double there =
        to_doubles(rounded[i].bytes, argument.type.dtype)[static_cast<size_t>(difference.first)];
    difference.by_rounding = !std::isfinite(there);
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
  const AnyKernel* author = authors.find_or_op(request.kernel);  // checks the name first
  const std::map<std::string, Array> inputs = read_inputs(request.inputs);
  const lib::ContextRef context = open_context(globals);
  const std::vector<RunOutput> outputs =
      author ? run_author(context, *author, request, inputs)
             : run_op(context, request.kernel, request.settings, inputs, request.check);

  if (!request.output_dir.empty()) make_folder(request.output_dir);
  bool right = true;
  Json result = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const RunOutput& output : outputs) {
    if (!request.output_dir.empty()) {
      write_npy(request.output_dir + "/" + output.name + ".npy",
                from_memory(output.bytes, output.type, output.shape));
    }
    Json entry = {{"output", output.name}, {"dtype", name(output.type)}, {"shape", output.shape}};
    std::vector<std::string> row = {output.name, name(output.type), shape_text(output.shape), "",
                                    ""};
    if (request.check) {
      const Difference& d = output.difference;
      const std::string fault = fault_of(output);
      right = right && fault.empty();
      row[3] = fmt::format("{:.2e}", d.worst);
      row[4] = fault.empty() ? good(globals, "right") : bad(globals, fault);
      entry["max_error_of_scale"] = d.worst;
      entry["beyond_gate"] = d.beyond;
      entry["not_written"] = output.unwritten.elements;
      if (d.beyond > 0)
        entry["first_beyond"] = {{"index", d.first}, {"got", d.got}, {"expected", d.expected}};
    }
    rows.push_back(row);
    result.push_back(entry);
  }
  if (globals.json != "-") {
    print_table(globals,
                {"output", "dtype", "shape", request.check ? "max error / max" : "",
                 request.check ? "check" : ""},
                rows);
  }
  write_json(globals, result);
  return right ? kOk : kCheckFailed;
}

}  // namespace ligerdsl::cli
