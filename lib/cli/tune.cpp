// `ligerdsl tune`: tries configurations of kernels, keeps every trial, and exports those that won.
//
// This process has no context of the device: a worker (tune_worker.cpp) runs what may hang or crash, and compilers run
// beside it, into the disk cache that the worker loads from.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>

#include "lib/cli/authors.h"
#include "lib/cli/commands.h"
#include "lib/cli/deferred_signals.h"
#include "lib/cli/printable.h"
#include "lib/cli/tune_device.h"
#include "lib/cli/tune_search.h"
#include "lib/cli/tune_tasks.h"
#include "lib/tune/store.h"
#include "lib/tune/table_file.h"

namespace ligerdsl::cli {

namespace {

using tune::Fate;
using tune::Trial;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// What is tried, and how it goes: a line that is written over on a terminal, else a line now and then.
class Progress {
 public:
  explicit Progress(const Globals& globals) : quiet_(globals.quiet), line_(!globals.quiet && isatty(STDERR_FILENO)) {}
  ~Progress() { clear(); }

  void show(const std::string& text) {
    constexpr double kLineSeconds = 10;
    if (quiet_) return;
    if (line_) {
      fmt::print(stderr, "\r\033[K{:.{}}", printable(text), 150);
      std::fflush(stderr);
    } else if (!shown_ || seconds_since(*shown_) >= kLineSeconds) {
      fmt::print(stderr, "{}\n", printable(text));
      shown_ = Clock::now();
    }
  }
  void clear() const {
    if (line_) fmt::print(stderr, "\r\033[K"), std::fflush(stderr);
  }

 private:
  bool quiet_, line_;
  std::optional<Clock::time_point> shown_;
};

std::string default_store() {
  const char* data = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  if (data && *data) return std::string(data) + "/ligerdsl/trials.jsonl";
  if (home && *home) return std::string(home) + "/.local/share/ligerdsl/trials.jsonl";
  throw Failure(kUsage, "tune: neither XDG_DATA_HOME nor HOME is set; name a file for the trials with --store");
}

std::string problems_text(const TuneTask& task) {
  std::string text = fmt::format("{}", fmt::join(task.problems.front(), " "));
  return task.problems.size() == 1 ? text : fmt::format("{} and {} more", text, task.problems.size() - 1);
}

double mean_us(const std::vector<double>& us) {
  double logs = 0;
  for (const double one : us) logs += std::log(one);
  return us.empty() ? 0 : std::exp(logs / static_cast<double>(us.size()));
}

std::string fates_text(const TuneWinner& won) {
  std::string text = fmt::format("{} tried", won.tried);
  for (const auto& [fate, count] : won.fates) {
    if (fate != Fate::ok) text += fmt::format(", {} {}", count, name(fate));
  }
  return text;
}

// What exists in --export is kept: tuning some kernels again leaves the others, and those that were not reached.
void export_winners(const std::string& path, const std::vector<TuneWinner>& winners) {
  tune::TableEntries entries;
  std::error_code error;
  if (std::filesystem::file_size(path, error) > 0 && !error) entries = tune::entries_of(lib::TunedTable::read(path));
  for (const TuneWinner& won : winners) {
    if (won.tried == 0) continue;
    const auto [key, entry] = tune::table_entry(won.trial);
    if (won.heuristic)
      entries.erase(key);
    else
      entries[key] = entry;
  }
  tune::write_table(path, entries);
}

}  // namespace

int tune(const Globals& globals, const TuneRequest& request) {
  const AuthorKernels authors(globals.load);
  if (!request.kernel.empty()) authors.find_or_op(request.kernel);
  if (request.kernel.empty() && request.sets.empty() && !request.all)
    throw Failure(kUsage, "tune: name a kernel, --set or --model, or --all");
  if (!request.kernel.empty() && (!request.sets.empty() || request.all || request.rows > 0))
    throw Failure(kUsage, "tune: name a kernel or sets of shapes, not both; --rows is of the sets");
  const std::string store_path = request.store.empty() ? default_store() : request.store;
  if (!request.export_to.empty()) export_winners(request.export_to, {});  // a file that cannot be, before the search
  tune::Store store(store_path);
  std::map<std::string, Trial> known;
  if (request.resume) {
    for (Trial& trial : store.read()) known.insert_or_assign(trial.key, std::move(trial));
  }
  const DeferredSignals signals;
  std::vector<TuneWinner> winners;
  std::vector<std::vector<std::string>> rows;
  Json results = Json::array();
  Progress progress(globals);
  try {
    TuneDevice device(globals, signals);
    const std::vector<TuneTask> tasks = tune_tasks(globals, request, authors, device.description());
    const TuneSearch how{request, device, store, known, [&](const std::string& text) { progress.show(text); }};
    const auto began = Clock::now();
    for (size_t i = 0; i < tasks.size(); ++i) {
      const TuneTask& task = tasks[i];
      const double budget = (request.budget_seconds - seconds_since(began)) / static_cast<double>(tasks.size() - i);
      TuneWinner won = search(how, task, budget);
      progress.clear();
      const Trial& trial = won.trial;
      rows.push_back({task.operation, problems_text(task), format_time(mean_us(trial.heuristic_us) * 1e-3),
                      format_time(mean_us(trial.us) * 1e-3),
                      won.heuristic ? "1, the heuristic's" : fmt::format("{:.3f}", trial.ratio), trial.config,
                      fates_text(won)});
      results.push_back({{"winner", trial.to_json()}, {"heuristic_won", won.heuristic}, {"tried", won.tried}});
      winners.push_back(std::move(won));
      if (!request.export_to.empty()) export_winners(request.export_to, winners);
    }
  } catch (const Stopped&) {
    print_error(fmt::format("interrupted: every trial is in \"{}\"; --resume goes on from there", store.path()));
  }
  progress.clear();
  if (globals.json != "-")
    print_table(globals, {"kernel", "problems", "heuristic", "best", "of its time", "configuration", "trials"}, rows);
  write_json(globals, {{"store", store.path()}, {"results", results}, {"interrupted", signals.arrived()}});
  flush_output();
  return kOk;
}

}  // namespace ligerdsl::cli
