#include "lib/cli/explain/explain_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/cli/kernels/given_config.h"
#include "lib/cli/kernels/tuned_author.h"
#include "lib/text/printable.h"
#include "runtime/environment/options.h"

namespace ligerdsl::cli {

namespace {

Json field_json(const MetaField& field, const std::string& value, const std::string& from) {
  return {{"name", field.name},
          {"type", field.type},
          {"value", value},
          {"from", from},
          {"heuristic", field.value},
          {"choices", field.choices},
          {"changes", name(field.bits)}};
}

std::string why(lib::Context& context, const lib::ConfigSource& source) {
  if (source.table)
    return fmt::format("the table \"{}\" has an entry, tuned on {}", source.table->name(),
                       source.model);
  if (runtime::options().tuning == runtime::Tuning::off)
    return "LIGERDSL_TUNING=off disables tables";
  if (!context.tuned()) return "there is no table of tuned kernels (LIGERDSL_TABLE)";
  return source.passed.empty() ? "no table has an entry for this kernel"
                               : "every entry for this kernel was passed over";
}

Json config_json(const std::string& kernel, const std::string& key, const char* otherwise,
                 const std::string& why, const lib::ConfigSource& source, const Json& fields) {
  return {{"kernel", kernel},
          {"key", key},
          {"from", source.table ? "table" : otherwise},
          {"why", why},
          {"table", source.table ? Json(source.table->name()) : Json()},
          {"tuned_on", source.table ? Json(source.model) : Json()},
          {"passed_over", source.passed},
          {"fields", fields}};
}

}  // namespace

MetaValues ExplainedConfigs::changed(const std::shared_ptr<const lib::ConfigQuestion>& question) {
  Answer answer{.kernel = question->kernel(),
                .key = lib::tuned_key(question->kernel(), question->version(), question->options(),
                                      context_.tuned_device()),
                .heuristic = question->heuristic(),
                .source = {}};
  if (lib::TunedConfigs* tables = context_.tuned()) answer.source = tables->look_up(*question);
  answers_.push_back(std::move(answer));
  return answers_.back().source.values;
}

Json ExplainedConfigs::json(const ConfigSettings& settings) const {
  Json list = Json::array();
  for (size_t i = 0; i < answers_.size(); ++i) {
    const Answer& answer = answers_[i];
    const std::vector<MetaField>& chosen = settings.kernels().at(i).fields;
    Json fields = Json::array();
    for (size_t j = 0; j < answer.heuristic.size(); ++j) {
      const MetaField& field = answer.heuristic[j];
      const char* from = settings.gives(field.name)               ? "setting"
                         : answer.source.values.count(field.name) ? "table"
                                                                  : "heuristic";
      fields.push_back(field_json(field, chosen.at(j).value, from));
    }
    list.push_back(config_json(answer.kernel, answer.key, "heuristic", why(context_, answer.source),
                               answer.source, fields));
  }
  return list;
}

Json author_config(lib::Context& context, const AnyKernel& kernel,
                   std::vector<std::string>* settings) {
  std::map<std::string, std::string> rest;
  const MetaValues given = take_meta(kernel, *settings, &rest);
  const TunedAuthor tuned = tuned_author(context, kernel, *settings);
  const lib::ConfigSource& source = tuned.source;
  Json fields = Json::array();
  MetaValues open;  // schedule fields that settings do not choose
  for (const MetaField& field : kernel.fields()) {
    const bool is_given = given.count(field.name) > 0,
               is_tuned = source.values.count(field.name) > 0;
    const std::string value = is_given   ? given.at(field.name)
                              : is_tuned ? source.values.at(field.name)
                                         : field.value;
    fields.push_back(field_json(field, value,
                                is_given   ? "setting"
                                : is_tuned ? "table"
                                           : "default"));
    fields.back()["default"] = fields.back()["heuristic"];
    fields.back().erase("heuristic");
    if (field.bits != Bits::fixed) open[field.name] = value;
  }
  *settings = with_config(*settings, open);
  const std::string key = lib::tuned_key(kernel.name(), 1, tuned.options, context.tuned_device());
  std::string reason = why(context, source);
  if (open.empty())
    reason = "this kernel has no schedule to choose";
  else if (runtime::options().tuning == runtime::Tuning::same && context.tuned())
    reason = "LIGERDSL_TUNING=same disables tables for kernels loaded with --load";
  return config_json(kernel.name(), key, "default", reason, source, fields);
}

void print_configs(const Globals& globals, const Json& configs) {
  for (const Json& config : configs) {
    const std::string from = config["from"];
    const auto say = [](const std::string& line) {
      print_text(printable_line(line) + "\n");
    };  // the lines contain text from tables
    print_text("\n");
    say(fmt::format("configuration of {}: the {}, because {}", config["kernel"].get<std::string>(),
                    from == "default" ? "kernel's own" : from + "'s",
                    config["why"].get<std::string>()));
    say("key in tables: " + config["key"].get<std::string>());
    for (const Json& sentence : config["passed_over"])
      say("passed over: " + sentence.get<std::string>());
    std::vector<std::vector<std::string>> rows;
    for (const Json& field : config["fields"])
      rows.push_back(
          {field["name"], field["value"], field["from"],
           field.value("heuristic", field.value("default", "")),
           fmt::format("{}", fmt::join(field["choices"].get<std::vector<std::string>>(), ",")),
           field["changes"]});
    const bool own = !config["fields"].empty() && config["fields"][0].contains("default");
    print_table(globals,
                {"field", "value", "from", own ? "default" : "heuristic", "choices", "changes"},
                rows);
  }
}

}  // namespace ligerdsl::cli
