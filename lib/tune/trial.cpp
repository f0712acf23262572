#include "lib/tune/trial.h"

#include <iterator>
#include <stdexcept>

namespace ligerdsl::tune {

namespace {
constexpr const char* kFates[] = {"ok", "slow", "compile", "wrong", "guard", "timeout", "crash"};
}

const char* name(Fate fate) {
  return kFates[static_cast<size_t>(fate)];
}

Fate fate_named(const std::string& name) {
  for (size_t i = 0; i < std::size(kFates); ++i) {
    if (name == kFates[i]) return static_cast<Fate>(i);
  }
  throw std::invalid_argument("no fate '" + name + "'");
}

Json Trial::to_json() const {
  return {{"key", key},
          {"operation", operation},
          {"kernel", kernel},
          {"version", version},
          {"options", options},
          {"config", config},
          {"heuristic", heuristic},
          {"device", device},
          {"build", build},
          {"problems", problems},
          {"fate", name(fate)},
          {"reason", reason},
          {"us", us},
          {"heuristic_us", heuristic_us},
          {"ratio", ratio},
          {"samples", samples},
          {"seconds", seconds},
          {"resources", resources},
          {"date", date},
          {"elapsed", elapsed},
          {"ceiling", ceiling},
          {"loaded", loaded}};
}

Trial Trial::from_json(const Json& json) {
  Trial trial;
  json.at("key").get_to(trial.key);
  json.at("kernel").get_to(trial.kernel);
  trial.operation = json.value("operation", trial.kernel);
  json.at("version").get_to(trial.version);
  json.at("options").get_to(trial.options);
  json.at("config").get_to(trial.config);
  json.at("heuristic").get_to(trial.heuristic);
  trial.device = json.at("device");
  json.at("build").get_to(trial.build);
  json.at("problems").get_to(trial.problems);
  trial.fate = fate_named(json.at("fate").get<std::string>());
  json.at("reason").get_to(trial.reason);
  json.at("us").get_to(trial.us);
  json.at("heuristic_us").get_to(trial.heuristic_us);
  json.at("ratio").get_to(trial.ratio);
  json.at("samples").get_to(trial.samples);
  trial.seconds = json.value("seconds", Json::object());
  trial.resources = json.at("resources");
  json.at("date").get_to(trial.date);
  trial.elapsed = json.value("elapsed", 0.0);
  trial.ceiling = json.value("ceiling", Json());
  trial.loaded = json.value("loaded", "");
  return trial;
}

}  // namespace ligerdsl::tune
