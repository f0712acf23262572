// `ligerdsl table`: tables of tuned kernels, listed, merged, and proved again on this machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "lib/cli/commands.h"
#include "lib/cli/deferred_signals.h"
#include "lib/cli/distortions.h"
#include "lib/cli/table_output.h"
#include "lib/cli/tune_device.h"
#include "lib/cli/tune_tasks.h"

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

using Problems = std::vector<std::vector<std::string>>;

Problems problems_of(const Json& entry) {
  Problems problems;
  for (const std::string problem : entry.value("problems", Json::array())) {
    std::istringstream words(problem);
    problems.emplace_back();
    for (std::string word; words >> word;) problems.back().push_back(word);
  }
  return problems;
}

// Entries that are tried on this device.
class Importer {
 public:
  Importer(const Globals& globals, const DeferredSignals& signals)
      : globals_(globals), authors_(globals.load), signals_(signals), device_(globals, signals) {}

  // The key that plans of this device ask for instead of that of another.
  std::string key_here(const std::string& key) const {
    const std::string here = lib::tuned_key("", 0, "", described());
    return key.substr(0, key.find(" @ ")) + here.substr(here.find(" @ "));
  }

  // Why this entry is not taken; empty: it is right here and no slower than the heuristic. Its times become those of
  // here.
  std::string prove(const std::string& key, Json* entry);

 private:
  lib::TunedDevice described() const {
    const Json& about = device_.description();
    return {about.at("arch"), about.at("units"), about.at("model")};
  }

  // What is measured for an entry must be what its key is looked up for: a table that was edited, or another meaning of
  // an operation's settings, would have a configuration taken that was never tried.
  std::string mismatch(const std::string& key, const std::string& operation, const Problems& problems) const {
    if (problems.empty()) return "it has no problem to measure it on";
    for (const auto& settings : problems) {
      TuneRequest request;
      request.kernel = operation;
      request.settings = settings;
      for (const TuneTask& task :
           tune_tasks(globals_, request, authors_, device_.description(), signals_.descriptor())) {
        const std::string asked = lib::tuned_key(task.kernel, task.version, task.options, described());
        if (asked != key_here(key))
          return fmt::format("its problem \"{}\" is one of {}", fmt::join(settings, " "), asked);
      }
    }
    return "";
  }

  const Globals& globals_;
  const AuthorKernels authors_;
  const DeferredSignals& signals_;
  TuneDevice device_;
};

std::string Importer::prove(const std::string& key, Json* entry) {
  const std::string operation = entry->value("operation", parts_of(key).kernel);
  const Problems problems = problems_of(*entry);
  if (std::string reason = mismatch(key, operation, problems); !reason.empty()) return reason;
  const double sample_seconds = device_.open({operation, problems, {}});
  constexpr int kSamples = 15;
  constexpr double kSeconds = 20, kSlower = 10;
  const Json answer = device_.attempt(lib::config_values(entry->at("config").get<std::string>()), kSamples,
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
  write_tuned_table(request.output, all);
  write_json(globals, {{"entries", all.size()}});
  return kOk;
}

int table_import(const Globals& globals, const TableRequest& request) {
  refuse_distortions("table import");
  const tune::TableEntries given = read_table(request.files.front());
  check_writable(request.output);
  const DeferredSignals signals;
  tune::TableEntries taken;
  Json refused = Json::array();
  try {
    Importer importer(globals, signals);
    for (const auto& [key, entry] : given) {
      Json proved = entry;
      std::string reason;
      try {
        reason = importer.prove(key, &proved);
      } catch (const std::exception& error) {
        if (signals.arrived()) throw;
        reason = error.what();
      }
      if (reason.empty()) {
        proved["imported_from"] = parts_of(key).device;
        taken[importer.key_here(key)] = std::move(proved);
      } else {
        refused.push_back({{"key", key}, {"reason", reason}});
        print_error(fmt::format("not taken: {}: {}", key, reason));
      }
    }
  } catch (const std::exception&) {
    if (!signals.arrived()) throw;
    print_error("interrupted: nothing is written");
    return kInterrupted;
  }
  write_tuned_table(request.output, taken);
  if (globals.json != "-" && !is_standard_output(request.output))
    print_text(fmt::format("{} of {} entries are right and no slower here\n", taken.size(), given.size()));
  write_json(globals, {{"taken", taken.size()}, {"refused", refused}});
  return kOk;
}

}  // namespace ligerdsl::cli
