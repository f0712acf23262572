#include "lib/cli/kernels/tuned_author.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/cli/kernels/given_config.h"
#include "lib/text/output.h"
#include "ligerdsl/dsl/error.h"

namespace ligerdsl::cli {

namespace {

// Parses a configuration like ligerdsl::tuned. Throws ligerdsl::Error.
MetaValues values_of(const std::string& config, const std::vector<MetaField>& fields) {
  MetaValues values = tuned_values(config);
  for (const auto& [name, value] : values) {
    const auto field =
        std::find_if(fields.begin(), fields.end(),
                     [&, &wanted = name](const MetaField& each) { return each.name == wanted; });
    if (field == fields.end() || field->bits == Bits::fixed)
      throw Error(fmt::format("error: '{}' is no choice of its schedule", name));
    if (!std::count(field->choices.begin(), field->choices.end(), value))
      throw Error(fmt::format("error: {}: expected one of {}, got '{}'", name,
                              fmt::join(field->choices, ", "), value));
  }
  return values;
}

}  // namespace

TunedAuthor tuned_author(lib::Context& context, const AnyKernel& kernel,
                         const std::vector<std::string>& settings) {
  std::vector<MetaField> fields = kernel.fields();
  Settings rest;
  const MetaValues given = take_meta(kernel, settings, &rest);
  for (MetaField& field : fields) {
    if (given.count(field.name)) field.value = given.at(field.name);
  }
  std::string arguments;
  for (const auto& [name, value] : rest) arguments += name + "=" + value + " ";
  TunedAuthor tuned{.options = tuned_options(fields, arguments), .source = {}};
  const auto entry =
      context.tuned() ? context.tuned()->author_entry(kernel.name(), tuned.options) : std::nullopt;
  if (!entry) return tuned;
  const std::string config(entry->config);
  try {
    tuned.source.values = values_of(config, fields);
    tuned.source.table = entry->table;
    tuned.source.model = entry->model;
    std::erase_if(tuned.source.values,
                  [&](const auto& value) { return given.count(value.first) > 0; });
  } catch (const Error& error) {
    tuned.source.passed.push_back(
        fmt::format("table \"{}\" has {}, which ligerdsl::tuned rejects: {}", entry->table->name(),
                    config, error.what()));
  }
  return tuned;
}

std::vector<std::string> tuned_settings(lib::Context& context, const AnyKernel& kernel,
                                        const std::vector<std::string>& settings) {
  Settings rest;
  const MetaValues given = take_meta(kernel, settings, &rest);
  const std::vector<MetaField> fields = kernel.fields();
  if (std::all_of(fields.begin(), fields.end(), [&](const MetaField& field) {
        return field.bits == Bits::fixed || given.count(field.name) > 0;
      }))
    return settings;
  const lib::ConfigSource source = tuned_author(context, kernel, settings).source;
  if (!source.passed.empty())
    throw Failure(kUsage, fmt::format("{}: {}", kernel.name(), source.passed.front()));
  return with_config(settings, source.values);
}

}  // namespace ligerdsl::cli
