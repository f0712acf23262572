// `ligerdsl table` lists and merges tables of tuned kernels, and imports entries that are gains on
// this machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "lib/cli/support/commands.h"
#include "lib/cli/support/deferred_signals.h"
#include "lib/cli/support/table_output.h"
#include "lib/cli/support/timing_hazards.h"
#include "lib/cli/tune/tune_device.h"
#include "lib/cli/tune/tune_tasks.h"
#include "lib/tune/summary.h"

namespace ligerdsl::cli {

namespace {

// Parts of a table key like "rms_norm_forward/1 cols=4096 @ sm_90a/132/NVIDIA H200".
struct KeyParts {
  std::string kernel, options, device;
};

KeyParts parts_of(const std::string& key) {
  const size_t space = key.find(' '), at = key.find(" @ ");
  if (at == std::string::npos || space == at)
    return {key.substr(0, key.find('/')), "", at == std::string::npos ? "" : key.substr(at + 3)};
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

// Tries entries on this device.
class Importer {
 public:
  Importer(const Globals& globals, const DeferredSignals& signals)
      : globals_(globals),
        authors_(globals.load),
        signals_(signals),
        time_(signals, kTimeoutSeconds, kUnlimitedSeconds),
        device_(globals, time_) {}

  // Returns the key with its device replaced by this one.
  std::string key_here(const std::string& key) const {
    const std::string here = lib::tuned_key("", 0, "", described());
    return key.substr(0, key.find(" @ ")) + here.substr(here.find(" @ "));
  }

  // Measures the entry on this device. Returns the reason why it is not imported, or "" if its
  // results are correct and it is a gain (tune::no_gain). An imported entry gets this device's
  // times. Sets `refuted` if the measurement refutes it (tune::is_refuted).
  std::string prove(const std::string& key, Json* entry, bool* refuted);

 private:
  lib::TunedDevice described() const {
    const Json& about = device_.description();
    return {about.at("arch"), about.at("units"), about.at("model")};
  }

  // Returns the reason why the entry's problems do not belong to its key, or "". Without
  // this check, an edited table or a changed meaning of settings could import a configuration that
  // was never tried for its key.
  std::string mismatch(const std::string& key, const std::string& operation,
                       const Problems& problems) const {
    if (problems.empty()) return "it has no \"problems\" to measure";
    for (const auto& settings : problems) {
      TuneRequest request;
      request.kernel = operation;
      request.settings = settings;
      for (const TuneTask& task :
           tune_tasks(globals_, request, authors_, device_.description(), signals_.descriptor())) {
        const std::string asked =
            lib::tuned_key(task.kernel, task.version, task.options, described());
        if (asked != key_here(key))
          return fmt::format("its problem \"{}\" belongs to the key {}", fmt::join(settings, " "),
                             asked);
      }
    }
    return "";
  }

  const Globals& globals_;
  static constexpr double kTimeoutSeconds = 20, kUnlimitedSeconds = 1e8;

  const AuthorKernels authors_;
  const DeferredSignals& signals_;
  const TuneTime time_;
  TuneDevice device_;
};

std::string Importer::prove(const std::string& key, Json* entry, bool* refuted) {
  const std::string operation = entry->value("operation", parts_of(key).kernel);
  const Problems problems = problems_of(*entry);
  if (std::string reason = mismatch(key, operation, problems); !reason.empty()) return reason;
  const double sample_seconds = device_.open({operation, problems, {}});
  constexpr int kSamples = 45;
  const auto attempt = [&](const MetaValues& config, bool give_up) {
    return device_.attempt({.config = config,
                            .samples = kSamples,
                            .give_up = give_up,
                            .seconds = time_.trial_seconds(sample_seconds * 2 * kSamples),
                            .stop = time_.whole()});
  };
  const Json answer = attempt(lib::config_values(entry->at("config").get<std::string>()), true);
  tune::Trial trial;
  trial.fate = tune::fate_named(answer.at("fate"));
  if (trial.fate == tune::Fate::ok) {
    trial.ratio = answer.at("ratio");
    answer.at("us").get_to(trial.us);
    answer.at("heuristic_us").get_to(trial.heuristic_us);
    entry->at("problems").get_to(trial.problems);
  }
  *refuted = tune::is_refuted(trial);
  if (trial.fate != tune::Fate::ok)
    return fmt::format("{}: {}", name(trial.fate), answer.at("reason").get<std::string>());
  const Json noise = attempt({}, false);  // time of the heuristic against itself
  if (noise.at("fate") != "ok")
    return fmt::format("the heuristic failed on this device: {}",
                       noise.at("reason").get<std::string>());
  if (std::string reason = tune::no_gain(trial, noise.at("ratio")); !reason.empty())
    return "on this device " + reason;
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
    rows.push_back({parts.kernel, parts.options, parts.device,
                    ratio > 0 ? fmt::format("{:.3f}", ratio) : "", entry.at("config")});
    listed.push_back({{"kernel", parts.kernel},
                      {"options", parts.options},
                      {"device", parts.device},
                      {"entry", entry}});
  }
  if (globals.json != "-")
    print_table(globals, {"kernel", "options", "device", "time / heuristic's", "configuration"},
                rows);
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

namespace {

// Entries to write and to remove after an import. An entry of the output table with the same
// configuration is replaced or removed, because this import measured it again. An entry with
// another configuration remains if it gains more.
struct Imported {
  tune::TableEntries taken, refuted;

  bool apply(tune::TableEntries* entries) const {
    const tune::TableEntries before = *entries;
    for (const auto& [key, entry] : refuted) {
      const auto there = entries->find(key);
      if (there != entries->end() && there->second.at("config") == entry.at("config"))
        entries->erase(there);
    }
    for (const auto& [key, entry] : taken) {
      const auto there = entries->find(key);
      if (there != entries->end() && there->second.at("config") == entry.at("config"))
        entries->erase(there);
    }
    tune::merge(entries, taken);
    return *entries != before;
  }
};

}  // namespace

int table_import(const Globals& globals, const TableRequest& request) {
  refuse_timing_hazards("table import");
  const tune::TableEntries given = read_table(request.files.front());
  const bool printed = is_standard_output(request.output);
  if (!printed)
    tune::entries_to_update(
        request.output);  // reports an unusable file before the first measurement
  const DeferredSignals signals;
  Imported imported;
  Json refused = Json::array();
  try {
    Importer importer(globals, signals);
    for (const auto& [key, entry] : given) {
      Json proved = entry;
      std::string reason;
      bool refuted = false;
      try {
        reason = importer.prove(key, &proved, &refuted);
      } catch (const std::exception& error) {
        if (signals.arrived()) throw;
        reason = error.what();
      }
      const std::string here = importer.key_here(key);
      if (reason.empty()) {
        if (here != key) proved["imported_from"] = parts_of(key).device;
        tune::merge(&imported.taken, {{here, std::move(proved)}});
        continue;
      }
      if (refuted) imported.refuted.emplace(here, entry);
      refused.push_back({{"key", key}, {"reason", reason}});
      print_error(fmt::format("not imported: {}: {}", key, reason));
    }
  } catch (const std::exception&) {
    if (!signals.arrived()) throw;
    print_error("interrupted: no entry was written");
    return kInterrupted;
  }
  if (printed)
    print_text(tune::table_text(imported.taken));
  else
    tune::update_table(
        request.output, [&](tune::TableEntries* entries) { return imported.apply(entries); },
        signals.descriptor());
  const size_t taken = imported.taken.size();
  if (globals.json != "-" && !printed)
    print_text(fmt::format("{} of {} entries are correct and faster on this device\n", taken,
                           given.size()));
  write_json(globals, {{"taken", taken}, {"refused", refused}});
  return kOk;
}

}  // namespace ligerdsl::cli
