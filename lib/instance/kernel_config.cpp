#include "lib/instance/kernel_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/text/nearest.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

const std::string kPrefix = "config.";

void require_choice(const MetaField& field, const std::string& value) {
  if (std::count(field.choices.begin(), field.choices.end(), value)) return;
  throw Failure(kUsage,
                fmt::format("{}{}: expected one of {}, got '{}'{}", kPrefix, field.name,
                            fmt::join(field.choices, ", "), value,
                            field.type == "enum" ? did_you_mean(value, field.choices) : ""));
}

}  // namespace

bool ConfigSettings::take(const Setting& setting) {
  if (!setting.name.starts_with(kPrefix)) return false;
  given_[setting.name.substr(kPrefix.size())] = setting.value;
  return true;
}

MetaValues ConfigSettings::changed(const std::shared_ptr<const lib::ConfigQuestion>& question) {
  Kernel asked{question->kernel(), question->heuristic()};
  MetaValues values = base_ ? base_->changed(question) : MetaValues{};
  for (const auto& [name, value] : given_) values[name] = value;
  for (const auto& [name, value] : values) {
    const auto field =
        std::find_if(asked.fields.begin(), asked.fields.end(),
                     [&, &wanted = name](const MetaField& f) { return f.name == wanted; });
    if (field == asked.fields.end()) {
      std::vector<std::string> names;
      for (const MetaField& known : asked.fields) names.push_back(kPrefix + known.name);
      throw Failure(kUsage,
                    fmt::format("{} has no setting '{}{}'{}; it has {}", asked.name, kPrefix, name,
                                did_you_mean(kPrefix + name, names), fmt::join(names, " ")));
    }
    require_choice(*field, value);
    field->value = value;
  }
  kernels_.push_back(std::move(asked));
  return values;
}

void ConfigSettings::require_taken(const std::string& operation) const {
  if (given_.empty() || !kernels_.empty()) return;
  throw Failure(kUsage, fmt::format("{}{}: {} has no schedule to choose; omit this setting",
                                    kPrefix, given_.begin()->first, operation));
}

}  // namespace ligerdsl::cli
