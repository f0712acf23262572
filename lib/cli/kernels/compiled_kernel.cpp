#include "lib/cli/kernels/compiled_kernel.h"

#include <fmt/format.h>

#include "kernels/core/argument_facts.h"
#include "lib/cli/kernels/assemble.h"
#include "lib/text/output.h"
#include "program/remarks.h"
#include "program/serialize.h"
#include "runtime/kernel/resource_remarks.h"

namespace ligerdsl::cli {

namespace {

void add_remarks(CompiledKernel* kernel) {
  kernel->remarks = kernel->artifact.remarks;
  if (kernel->artifact.target != program::Target::nvptx || !kernel->resources) return;
  for (program::Remark& remark : runtime::resource_remarks(kernel->artifact, *kernel->resources,
                                                           kernel->options.min_ctas_per_sm))
    kernel->remarks.push_back(std::move(remark));
}

CompiledKernel of(const RecordedKernel& recorded) {
  return {.name = program::parseProgram(recorded.program).name, .options = recorded.options};
}

}  // namespace

std::vector<std::string> variant_names(const std::vector<RecordedKernel>& all, bool gpu) {
  if (!gpu) return std::vector<std::string>(all.size());
  std::vector<std::string> names;
  while (names.size() < all.size())
    for (const kernels::Variant each :
         kernels::variants_of(program::parseProgram(all[names.size()].program)))
      names.emplace_back(kernels::name_of(each));
  return names;
}

std::vector<RecordedKernel> choose_variant(const std::vector<RecordedKernel>& all,
                                           const std::string& variant, bool gpu) {
  if (!gpu) return all;
  std::vector<RecordedKernel> chosen;
  const std::vector<std::string> names = variant_names(all, gpu);
  for (size_t i = 0; i < all.size(); ++i)
    if (variant == names[i]) chosen.push_back(all[i]);
  if (chosen.empty() && !all.empty())
    throw Failure(
        kUsage,
        fmt::format("--variant {}: only kernels that {} have this variant; use aligned or generic",
                    variant,
                    variant == "contiguous" ? "take alignment offsets of unaligned rows"
                                            : "multiply tiles"));
  return chosen;
}

CompiledKernel compiled(runtime::CompilerLibrary& compiler, const RecordedKernel& recorded) {
  CompiledKernel kernel = of(recorded);
  kernel.artifact = program::parseArtifact(
      compiler.compile(recorded.program, program::serialize(recorded.options)));
  if (kernel.artifact.target == program::Target::nvptx)
    kernel.resources = assembled_resources(kernel.artifact);
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
  for (const program::Remark& remark : remarks) text += text_with_remedy(remark) + "\n";
  return text;
}

Json json_of(const std::vector<program::Remark>& remarks) {
  Json list = Json::array();
  for (const program::Remark& remark : remarks)
    list.push_back({{"file", remark.file},
                    {"line", remark.line},
                    {"column", remark.column},
                    {"pass", remark.pass},
                    {"id", remark.id},
                    {"text", remark.text},
                    {"remedy", remedy_of(remark)}});
  return list;
}

}  // namespace ligerdsl::cli
