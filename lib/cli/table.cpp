// `ligerdsl table`: tables of tuned kernels, listed, merged, and proved again on this machine.
#include <fmt/format.h>

#include <sstream>

#include "lib/cli/commands.h"
#include "lib/cli/deferred_signals.h"
#include "lib/cli/tune_device.h"
#include "lib/tune/table_file.h"

namespace ligerdsl::cli {

namespace {

// "rms_norm_forward/1 cols=4096 @ sm_90a/132/NVIDIA H200"
struct KeyParts {
  std::string kernel, options, device;
};

KeyParts parts_of(const std::string& key) {
  const size_t space = key.find(' '), at = key.find(" @ ");
  if (at == std::string::npos || space == at)
    return {key.substr(0, key.find('/')), "", key.substr(std::min(at, key.size()))};
  return {key.substr(0, key.find('/')), key.substr(space + 1, at - space - 1), key.substr(at + 3)};
}

tune::TableEntries read_table(const std::string& path) {
  return tune::entries_of(lib::TunedTable::read(path));
}

std::vector<std::vector<std::string>> problems_of(const Json& entry) {
  std::vector<std::vector<std::string>> problems;
  for (const std::string problem : entry.at("problems")) {
    std::istringstream words(problem);
    problems.emplace_back();
    for (std::string word; words >> word;) problems.back().push_back(word);
  }
  return problems;
}

// Why this entry is not taken; empty: it is right here and no slower than the heuristic. Its times become those of here.
std::string prove(TuneDevice& device, const KeyParts& key, Json* entry) {
  const double sample_seconds = device.open({entry->value("operation", key.kernel), problems_of(*entry), {}});
  constexpr int kSamples = 15;
  constexpr double kSeconds = 20, kSlower = 10;
  const Json answer = device.attempt(lib::config_values(entry->at("config").get<std::string>()), kSamples,
                                     kSeconds + kSlower * sample_seconds * 2 * kSamples);
  if (answer.at("fate") != "ok")
    return fmt::format("{}: {}", answer.at("fate").get<std::string>(), answer.at("reason").get<std::string>());
  if (answer.at("ratio") > 1.0)
    return fmt::format("{:.3f} of the heuristic's time here", answer.at("ratio").get<double>());
  for (const char* name : {"ratio", "us", "heuristic_us"}) (*entry)[name] = answer.at(name);
  return "";
}

}  // namespace

int table_ls(const Globals& globals, const TableRequest& request) {
  std::vector<std::vector<std::string>> rows;
  Json listed = Json::array();
  for (const auto& [key, entry] : read_table(request.files.front())) {
    const KeyParts parts = parts_of(key);
    const double ratio = entry.value("ratio", 0.0);
    rows.push_back(
        {parts.kernel, parts.options, parts.device, ratio > 0 ? fmt::format("{:.3f}", ratio) : "", entry.at("config")});
    listed.push_back(
        {{"kernel", parts.kernel}, {"options", parts.options}, {"device", parts.device}, {"entry", entry}});
  }
  if (globals.json != "-")
    print_table(globals, {"kernel", "options", "device", "of the heuristic's time", "configuration"}, rows);
  write_json(globals, {{"entries", listed}});
  return kOk;
}

int table_merge(const Globals& globals, const TableRequest& request) {
  tune::TableEntries all;
  for (const std::string& file : request.files) tune::merge(&all, read_table(file));
  tune::write_table(request.output, all);
  write_json(globals, {{"entries", all.size()}});
  return kOk;
}

int table_import(const Globals& globals, const TableRequest& request) {
  const tune::TableEntries given = read_table(request.files.front());
  check_writable(request.output);
  const DeferredSignals signals;
  TuneDevice device(globals, signals);
  const Json& about = device.description();
  const lib::TunedDevice here{about.at("arch"), about.at("units"), about.at("model")};
  tune::TableEntries taken;
  Json refused = Json::array();
  try {
    for (const auto& [key, entry] : given) {
      const KeyParts parts = parts_of(key);
      Json proved = entry;
      std::string reason;
      try {
        reason = prove(device, parts, &proved);
      } catch (const std::exception& error) {
        if (signals.arrived()) throw;
        reason = error.what();
      }
      if (reason.empty()) {
        const std::string suffix = lib::tuned_key("", 0, "", here);
        proved["imported_from"] = parts.device;
        taken[key.substr(0, key.find(" @ ")) + suffix.substr(suffix.find(" @ "))] = std::move(proved);
      } else {
        refused.push_back({{"key", key}, {"reason", reason}});
        print_error(fmt::format("not taken: {}: {}", key, reason));
      }
    }
  } catch (const Stopped&) {
    print_error("interrupted: nothing is written");
    return kInterrupted;
  }
  tune::write_table(request.output, taken);
  if (globals.json != "-")
    print_text(fmt::format("{} of {} entries are right and no slower here\n", taken.size(), given.size()));
  write_json(globals, {{"taken", taken.size()}, {"refused", refused}});
  return kOk;
}

}  // namespace ligerdsl::cli
