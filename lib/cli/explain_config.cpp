#include "lib/cli/explain_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/options.h"

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

}  // namespace

MetaValues ExplainedConfigs::changed(const std::shared_ptr<const lib::ConfigQuestion>& question) {
  Answer answer{
      .kernel = question->kernel(),
      .key = lib::tuned_key(question->kernel(), question->version(), question->options(), context_.tuned_device()),
      .heuristic = question->heuristic(),
      .source = {}};
  if (lib::TunedConfigs* tables = context_.tuned()) answer.source = tables->look_up(*question);
  answers_.push_back(std::move(answer));
  return answers_.back().source.values;
}

std::string ExplainedConfigs::why(const Answer& answer) const {
  if (answer.source.table)
    return fmt::format("the table \"{}\" has an entry, tuned on {}", answer.source.table->name(), answer.source.model);
  if (runtime::options().tuning == runtime::Tuning::off) return "LIGERDSL_TUNING=off asks no table";
  if (!context_.tuned()) return "there is no table of tuned kernels (LIGERDSL_TABLE)";
  return answer.source.passed.empty() ? "no table has an entry for it" : "no entry for it can be taken";
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
    list.push_back({{"kernel", answer.kernel},
                    {"key", answer.key},
                    {"from", answer.source.table ? "table" : "heuristic"},
                    {"why", why(answer)},
                    {"table", answer.source.table ? Json(answer.source.table->name()) : Json()},
                    {"tuned_on", answer.source.table ? Json(answer.source.model) : Json()},
                    {"passed_over", answer.source.passed},
                    {"fields", fields}});
  }
  return list;
}

Json author_config(const AnyKernel& kernel, const MetaValues& given) {
  Json fields = Json::array();
  for (const MetaField& field : kernel.fields()) {
    const auto value = given.find(field.name);
    const bool is_given = value != given.end();
    fields.push_back(field_json(field, is_given ? value->second : field.value, is_given ? "setting" : "default"));
    fields.back().erase("heuristic");
  }
  return {{{"kernel", kernel.name()},
           {"from", "default"},
           {"why", "tables are of the library's kernels"},
           {"fields", fields}}};
}

void print_configs(const Globals& globals, const Json& configs) {
  for (const Json& config : configs) {
    const std::string from = config["from"];
    print_text(fmt::format("\nconfiguration of {}: the {}, because {}\n", config["kernel"].get<std::string>(),
                           from == "default" ? "kernel's own" : from + "'s", config["why"].get<std::string>()));
    if (config.contains("key")) print_text(fmt::format("key in tables: {}\n", config["key"].get<std::string>()));
    for (const Json& sentence : config.value("passed_over", Json::array()))
      print_text(fmt::format("passed over: {}\n", sentence.get<std::string>()));
    std::vector<std::vector<std::string>> rows;
    for (const Json& field : config["fields"])
      rows.push_back({field["name"], field["value"], field["from"], field.value("heuristic", ""),
                      fmt::format("{}", fmt::join(field["choices"].get<std::vector<std::string>>(), ",")),
                      field["changes"]});
    print_table(globals, {"field", "value", "from", "heuristic", "choices", "changes"}, rows);
  }
}

}  // namespace ligerdsl::cli
