#include "lib/tune/trial.h"

#include <algorithm>
#include <iterator>

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
  throw JsonError(
      "expected \"fate\" to be ok, slow, compile, wrong, guard, timeout or crash, got \"" +
      clipped(name) + '"');
}

namespace {

bool is_device(const Json& device) {
  const auto is = [&](const char* name, bool (Json::*type)() const noexcept) {
    return !device.contains(name) || (device[name].*type)();
  };
  return device.is_null() ||
         (device.is_object() && is("arch", &Json::is_string) && is("model", &Json::is_string) &&
          is("units", &Json::is_number_integer) && is("driver", &Json::is_number_integer));
}

bool is_ceiling(const Json& ceiling) {
  return ceiling.is_null() || (ceiling.is_object() && (!ceiling.contains("copy_gb_per_s") ||
                                                       is_positive(ceiling["copy_gb_per_s"])));
}

}  // namespace

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
  const Members members(json);
  Trial trial;
  trial.key = members.text("key");
  trial.kernel = members.text("kernel");
  trial.operation = members.has("operation") ? members.text("operation") : trial.kernel;
  trial.version = members.count("version");
  trial.options = members.text("options");
  trial.config = members.text("config");
  trial.heuristic =
      members.get("heuristic", "true or false", [](const Json& is) { return is.is_boolean(); });
  trial.device = members.get("device",
                             "an object with strings \"arch\" and \"model\", and integers "
                             "\"units\" and \"driver\"; or null",
                             is_device);
  trial.build = members.text("build");
  members.get("problems", "a list of strings", are_strings).get_to(trial.problems);
  trial.fate = fate_named(members.text("fate"));
  trial.reason = members.text("reason");
  members.get("us", "a list of numbers above 0", are_positive).get_to(trial.us);
  members.get("heuristic_us", "a list of numbers above 0", are_positive).get_to(trial.heuristic_us);
  trial.ratio = members.number("ratio");
  trial.samples = members.count("samples");
  if (trial.fate == Fate::ok && trial.ratio == 0)
    throw JsonError("expected \"ratio\" above 0 in a trial whose \"fate\" is \"ok\", got 0");
  if (trial.fate == Fate::ok && trial.us.size() != trial.heuristic_us.size())
    throw JsonError(
        "expected \"us\" and \"heuristic_us\" of the same length in a trial whose \"fate\" is "
        "\"ok\", got lengths " +
        std::to_string(trial.us.size()) + " and " + std::to_string(trial.heuristic_us.size()));
  const auto is_object = [](const Json& is) { return is.is_object() || is.is_null(); };
  if (members.has("seconds"))
    trial.seconds = members.get("seconds", "an object or null", is_object);
  trial.resources = members.get("resources", "a list of objects, or null", [](const Json& is) {
    return is.is_null() || (is.is_array() && std::all_of(is.begin(), is.end(), [](const Json& one) {
                              return one.is_object();
                            }));
  });
  trial.date = members.text("date");
  if (members.has("elapsed")) trial.elapsed = members.number("elapsed");
  if (members.has("ceiling"))
    trial.ceiling =
        members.get("ceiling", "an object whose \"copy_gb_per_s\" is above 0, or null", is_ceiling);
  if (members.has("loaded")) trial.loaded = members.text("loaded");
  return trial;
}

}  // namespace ligerdsl::tune
