#include "lib/cli/tune/tune_export.h"

#include <fmt/format.h>

#include "lib/cli/support/table_output.h"
#include "lib/text/printable.h"

namespace ligerdsl::cli {

TableExport::TableExport(std::string path)
    : path_(std::move(path)), printed_(is_standard_output(path_)) {
  if (!path_.empty() && !printed_) entries_ = tune::entries_to_update(path_).size();
}

std::string TableExport::entry_of(const TuneTask& task, const Json& device) const {
  if (path_.empty() || printed_) return "";
  try {
    const tune::TableEntries entries = tune::entries_to_update(path_);
    const auto found = entries.find(
        lib::tuned_key(task.kernel, task.version, task.options, tune::device_of(device)));
    return found == entries.end() ? "" : found->second.at("config").get<std::string>();
  } catch (const std::exception&) {
    return "";  // write() reports the error
  }
}

void TableExport::add(const TuneTask& task, const TuneWinner& won) {
  if (path_.empty()) return;
  const auto [key, entry] = tune::table_entry(won.trial);
  Result result{
      .key = key, .was = task.entry, .entry = {}, .refuted = won.refuted, .reason = won.no_gain};
  if (!won.heuristic) result.entry = entry;
  if (result.reason.empty())
    result.reason =
        won.tried == 0 ? "nothing was tried" : "no other configuration gave correct results";
  left_.push_back(std::move(result));
  if (!printed_) write();
}

void TableExport::apply(const Result& result, tune::TableEntries* entries, Outcome* outcome) {
  const auto there = entries->find(result.key);
  const bool same = there != entries->end() && there->second.at("config") == result.was;
  if (result.entry) {
    // Another tuner may have written an entry for this key during the search. The faster entry
    // remains.
    const double ratio = there == entries->end() || same ? 0 : there->second.value("ratio", 0.0);
    if (ratio > 0 && ratio < result.entry->at("ratio")) {
      outcome->not_written.emplace_back(result.key,
                                        fmt::format("another process has written a faster entry, "
                                                    "which takes {:.3f} of the heuristic's time",
                                                    ratio));
      return;
    }
    (*entries)[result.key] = *result.entry;
    outcome->written.push_back(result.key);
  } else if (!result.refuted.empty() && same) {
    entries->erase(there);
    outcome->removed.emplace_back(result.key, result.refuted);
  } else {
    const char* stays = there == entries->end() ? "" : "; the table keeps its entry";
    outcome->not_written.emplace_back(result.key, result.reason + stays);
  }
}

// Writes all pending results into the table. Returns false if the write failed.
bool TableExport::write() {
  Outcome outcome = outcome_;
  size_t count = 0;
  try {
    const auto change = [&](tune::TableEntries* entries) {
      for (const Result& result : left_) apply(result, entries, &outcome);
      count = entries->size();
      return outcome.written.size() + outcome.removed.size() >
             outcome_.written.size() + outcome_.removed.size();
    };
    tune::update_table(path_, change, stop_);
  } catch (const std::exception& error) {
    if (failure_ != error.what()) print_error(fmt::format("--export: {}", failure_ = error.what()));
    return false;
  }
  outcome_ = std::move(outcome);
  entries_ = count;
  failure_.clear();
  left_.clear();
  return true;
}

bool TableExport::finish(const Globals& globals) {
  if (path_.empty()) return true;
  if (printed_) {
    tune::TableEntries entries;
    for (const Result& result : left_) apply(result, &entries, &outcome_);
    print_text(tune::table_text(entries));
  } else if (!write()) {
    for (const Result& result : left_) outcome_.not_written.emplace_back(result.key, failure_);
  }
  say(globals);
  return failure_.empty();
}

void TableExport::say(const Globals& globals) const {
  if (globals.json == "-") return;
  std::vector<std::string> lines;
  for (const auto& [key, reason] : outcome_.not_written)
    lines.push_back(fmt::format("not written: {}: {}", key, reason));
  for (const auto& [key, reason] : outcome_.removed)
    lines.push_back(fmt::format("removed: {}: {}", key, reason));
  if (!printed_)
    lines.push_back(fmt::format("{}: {} written, {} removed, {} not written; the table has {}",
                                path_, counted(std::ssize(outcome_.written), "entry", "entries"),
                                outcome_.removed.size(), outcome_.not_written.size(), entries_));
  for (const std::string& line : lines) {
    if (printed_)  // the table is on standard output
      print_error(line);
    else
      print_text(printable(line) + "\n");
  }
}

Json TableExport::json() const {
  if (path_.empty()) return nullptr;
  const auto listed = [](const Reasons& reasons) {
    Json list = Json::array();
    for (const auto& [key, reason] : reasons) list.push_back({{"key", key}, {"reason", reason}});
    return list;
  };
  return {{"file", path_},
          {"written", outcome_.written},
          {"removed", listed(outcome_.removed)},
          {"not_written", listed(outcome_.not_written)},
          {"entries", entries_}};
}

}  // namespace ligerdsl::cli
