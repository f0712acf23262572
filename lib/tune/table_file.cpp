#include "lib/tune/table_file.h"

namespace ligerdsl::tune {

std::pair<std::string, Json> table_entry(const Trial& winner) {
  const lib::TunedDevice device{winner.device.at("arch"), winner.device.at("units"), winner.device.at("model")};
  Json entry = {{"config", winner.config},
                {"ratio", winner.ratio},
                {"us", winner.us},
                {"heuristic_us", winner.heuristic_us},
                {"problems", winner.problems},
                {"driver", winner.device.value("driver", 0)},
                {"build", winner.build},
                {"date", winner.date}};
  return {lib::tuned_key(winner.kernel, winner.version, winner.options, device), std::move(entry)};
}

TableEntries entries_of(const lib::TunedTable& table) {
  TableEntries entries;
  for (size_t i = 0; i < table.size(); ++i) {
    const auto entry = table.entry(i);
    entries.emplace(entry.key, Json::parse(entry.rest));
  }
  return entries;
}

void merge(TableEntries* into, const TableEntries& others) {
  for (const auto& [key, entry] : others) {
    const auto [at, added] = into->try_emplace(key, entry);
    if (!added && entry.value("ratio", 1.0) < at->second.value("ratio", 1.0)) at->second = entry;
  }
}

std::string table_text(const TableEntries& entries) {
  std::string text = "{\"ligerdsl_tuned_kernels\": 1, \"entries\": {\n";
  for (const auto& [key, entry] : entries) {
    // As the library looks for it: the key has no character that JSON escapes, and "config" stands first.
    text += '"' + key + "\": {\"config\": " + entry.at("config").dump();
    for (const auto& [name, value] : entry.items()) {
      if (name != "config") text += ", " + Json(name).dump() + ": " + value.dump();
    }
    text += "},\n";
  }
  return text + "\"\": {}}}\n";
}

}  // namespace ligerdsl::tune
