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

namespace {

bool is_device(const Json& device) {
  const auto is = [&](const char* name, bool (Json::*type)() const noexcept) {
    return !device.contains(name) || (device[name].*type)();
  };
  return device.is_null() || (device.is_object() && is("arch", &Json::is_string) && is("model", &Json::is_string) &&
                              is("units", &Json::is_number_integer) && is("driver", &Json::is_number_integer));
}

bool is_ceiling(const Json& ceiling) {
  return ceiling.is_null() ||
         (ceiling.is_object() && (!ceiling.contains("copy_gb_per_s") || is_positive(ceiling["copy_gb_per_s"])));
}

// Members by name and type; what is another throws with its name, what it should be and what it is.
class Members {
 public:
  explicit Members(const Json& json) : json_(json) {}

  template <class Is>
  const Json& get(const char* name, const char* expected, const Is& is) const {
    const auto found = json_.find(name);
    if (found != json_.end() && is(*found)) return *found;
    constexpr size_t kShown = 60;
    const std::string got =
        found == json_.end() ? "none" : found->dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, kShown);
    throw std::invalid_argument(std::string("expected \"") + name + "\" to be " + expected + ", got " + got);
  }
  std::string text(const char* name) const {
    return get(name, "a text", [](const Json& is) { return is.is_string(); });
  }
  double number(const char* name) const {
    return get(name, "a number that is not negative", [](const Json& is) { return is == 0 || is_positive(is); });
  }
  int count(const char* name) const {
    constexpr int kMost = 1 << 30;
    return get(name, "a whole number that is not negative",
               [](const Json& is) { return is.is_number_integer() && is >= 0 && is <= kMost; });
  }

 private:
  const Json& json_;
};

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
  if (!json.is_object()) throw std::invalid_argument("expected an object");
  const Members members(json);
  Trial trial;
  trial.key = members.text("key");
  trial.kernel = members.text("kernel");
  trial.operation = json.contains("operation") ? members.text("operation") : trial.kernel;
  trial.version = members.count("version");
  trial.options = members.text("options");
  trial.config = members.text("config");
  trial.heuristic = members.get("heuristic", "true or false", [](const Json& is) { return is.is_boolean(); });
  trial.device = members.get("device", "an object whose \"arch\" and \"model\" are texts", is_device);
  trial.build = members.text("build");
  members.get("problems", "a list of texts", are_strings).get_to(trial.problems);
  trial.fate = fate_named(members.text("fate"));
  trial.reason = members.text("reason");
  members.get("us", "a list of numbers above 0", are_positive).get_to(trial.us);
  members.get("heuristic_us", "a list of numbers above 0", are_positive).get_to(trial.heuristic_us);
  trial.ratio = members.number("ratio");
  trial.samples = members.count("samples");
  if (trial.fate == Fate::ok && (trial.ratio == 0 || trial.us.size() != trial.heuristic_us.size()))
    throw std::invalid_argument("expected of a trial that is ok a \"ratio\", and as many \"us\" as \"heuristic_us\"");
  trial.seconds = json.value("seconds", Json::object());
  trial.resources = json.at("resources");
  trial.date = members.text("date");
  if (json.contains("elapsed")) trial.elapsed = members.number("elapsed");
  if (json.contains("ceiling")) trial.ceiling = members.get("ceiling", "an object of numbers, or null", is_ceiling);
  if (json.contains("loaded")) trial.loaded = members.text("loaded");
  return trial;
}

}  // namespace ligerdsl::tune
