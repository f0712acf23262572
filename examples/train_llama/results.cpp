#include "results.h"

#include "files.h"

namespace train {

using nlohmann::json;

json to_json(const std::vector<Comparison>& comparisons) {
  json out = json::array();
  for (const Comparison& c : comparisons) {
    out.push_back({{"name", c.name},
                   {"variant", c.variant},
                   {"output", c.output},
                   {"shape", c.shape},
                   {"error", c.error},
                   {"gate", c.gate},
                   {"of_gate", c.of_gate},
                   {"passed", c.passed()}});
  }
  return out;
}

void write_json(const Settings& s, json results) {
  if (s.json.empty()) return;
  results["build"] = library_build();
  // A prompt may be invalid UTF-8.
  write_whole(s.json, results.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace train
