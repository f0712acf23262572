#include "lib/cli/compiled_kernel.h"

#include "kernels/argument_facts.h"
#include "lib/cli/assemble.h"
#include "program/serialize.h"
#include "runtime/resource_remarks.h"

namespace ligerdsl::cli {

namespace {

void add_remarks(CompiledKernel* kernel) {
  kernel->remarks = kernel->artifact.remarks;
  if (kernel->artifact.target != program::Target::nvptx || !kernel->resources) return;
  for (program::Remark& remark :
       runtime::resource_remarks(kernel->artifact, *kernel->resources, kernel->options.min_ctas_per_sm))
    kernel->remarks.push_back(std::move(remark));
}

CompiledKernel of(const RecordedKernel& recorded) {
  return {.name = program::parseProgram(recorded.program).name, .options = recorded.options};
}

}  // namespace

std::vector<RecordedKernel> choose_variant(const std::vector<RecordedKernel>& all, const std::string& variant,
                                           bool gpu) {
  if (!gpu) return all;
  std::vector<RecordedKernel> chosen;
  for (size_t first = 0; first < all.size();) {
    const size_t variants = kernels::has_variant_of_factors(program::parseProgram(all[first].program)) ? 3 : 2;
    chosen.push_back(all.at(variant == "generic" ? first + variants - 1 : first));
    first += variants;
  }
  return chosen;
}

CompiledKernel compiled(runtime::CompilerLibrary& compiler, const RecordedKernel& recorded) {
  CompiledKernel kernel = of(recorded);
  kernel.artifact = program::parseArtifact(compiler.compile(recorded.program, program::serialize(recorded.options)));
  if (kernel.artifact.target == program::Target::nvptx) kernel.resources = assembled_resources(kernel.artifact);
  add_remarks(&kernel);
  return kernel;
}

CompiledKernel loaded(const RecordedKernel& recorded) {
  CompiledKernel kernel = of(recorded);
  kernel.artifact = recorded.loaded->artifact();
  kernel.resources = recorded.loaded->resources();
  add_remarks(&kernel);
  return kernel;
}

std::string text_of(const std::vector<program::Remark>& remarks) {
  std::string text;
  for (const program::Remark& remark : remarks) text += to_string(remark) + "\n";
  return text;
}

Json json_of(const std::vector<program::Remark>& remarks) {
  Json list = Json::array();
  for (const program::Remark& remark : remarks)
    list.push_back({{"file", remark.file},
                    {"line", remark.line},
                    {"column", remark.column},
                    {"pass", remark.pass},
                    {"text", remark.text}});
  return list;
}

}  // namespace ligerdsl::cli
