// `ligerdsl tune` tries configurations of kernels, stores every trial, and exports the winners.
//
// This process has no device context. A worker process (tune_worker.cpp) runs the kernels, because
// they may hang or crash. Compilers run in parallel and write to the disk cache, from which the
// worker loads.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "lib/cli/kernels/authors.h"
#include "lib/cli/report/report_page.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/deferred_signals.h"
#include "lib/cli/support/gnuplot.h"
#include "lib/cli/support/timing_hazards.h"
#include "lib/cli/tune/tune_device.h"
#include "lib/cli/tune/tune_export.h"
#include "lib/cli/tune/tune_search.h"
#include "lib/cli/tune/tune_tasks.h"
#include "lib/text/printable.h"
#include "lib/tune/store.h"

namespace ligerdsl::cli {

namespace {

using tune::Fate;
using tune::Trial;

// Shows the progress on stderr: on a terminal, one line that is overwritten; otherwise at most one
// line every 10 s.
class Progress {
 public:
  explicit Progress(const Globals& globals)
      : quiet_(globals.quiet), line_(!globals.quiet && isatty(STDERR_FILENO)) {}
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

std::string problems_text(const TuneTask& task) {
  std::string text = fmt::format("{}", fmt::join(task.problems.front(), " "));
  return task.problems.size() == 1 ? text
                                   : fmt::format("{} and {} more", text, task.problems.size() - 1);
}

Json settings_of(const TuneTask& task) {
  Json texts = Json::array();
  for (const auto& settings : task.problems)
    texts.push_back(fmt::format("{}", fmt::join(settings, " ")));
  return texts;
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

// Returns the number of assembler processes. A few suffice, because assembling is much faster than
// compiling, and each process holds GPU memory.
int assemblers_for(const Globals& globals, int compilers) {
  constexpr int kCompilersOfOne = 4, kMost = 4;
  return globals.device == "cpu" ? 0 : std::clamp(compilers / kCompilersOfOne, 1, kMost);
}

// One run of `tune`: its tasks and their results.
struct TuneRun {
  const Globals& globals;
  const TuneRequest& request;
  tune::Store& store;
  TableExport& table;
  const std::map<std::string, Trial>& known;
  std::vector<Trial> trials = {};
  std::vector<std::vector<std::string>> rows = {};
  Json results = Json::array();
  int64_t failed = 0, not_begun = 0;

  // Throws Stopped after a signal.
  void all(const AuthorKernels& authors, TuneTime& time, Progress& progress) {
    try {
      search_all(authors, time, progress);
    } catch (const BudgetOver&) {
      progress.clear();
      ++not_begun;
      print_error(
          fmt::format("the budget of {:g} s ended before a search could begin; raise --budget",
                      request.budget_seconds));
    }
  }

 private:
  void search_all(const AuthorKernels& authors, TuneTime& time, Progress& progress) {
    TuneDevice device(globals, time);
    const int compilers = request.jobs > 0
                              ? request.jobs
                              : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    // Starts after the device's worker, because the driver creates contexts one at a time.
    tune::WorkerPool assemblers(worker_arguments(globals), assemblers_for(globals, compilers),
                                request.timeout_seconds, time.search().descriptor());
    std::vector<TuneTask> tasks;
    try {
      tasks =
          tune_tasks(globals, request, authors, device.description(), time.search().descriptor());
    } catch (const std::exception&) {
      time.require_going_on();  // after a signal, throws Stopped instead of the compile's error
      throw;
    }
    const TuneSearch how{
        request,    time,      device,
        assemblers, compilers, store,
        trials,     known,     [&](const std::string& text) { progress.show(text); }};
    for (size_t i = 0; i < tasks.size(); ++i) {
      time.search_until(tune::Deadline::after(time.whole().left()));
      tasks[i].entry = table.entry_of(tasks[i], device.description());
      try {
        time.require_going_on();
        const TuneWinner won =
            search(how, tasks[i], time.whole().left() / static_cast<double>(tasks.size() - i));
        progress.clear();
        add(tasks[i], won);
      } catch (const BudgetOver&) {
        results.push_back(
            {{"operation", tasks[i].operation}, {"problems", settings_of(tasks[i])}, {"tried", 0}});
        ++not_begun;
      } catch (const Failure& failure) {
        if (tasks.size() == 1 || failure.code == kNoDevice) throw;
        progress.clear();  // a failed search (lack of memory ...) does not end the others
        note(tasks[i], failure.what());
      }
    }
    progress.clear();
    if (not_begun > 0)
      print_error(fmt::format(
          "the budget of {:g} s is over: {} of {} searches did not start; raise --budget",
          request.budget_seconds, not_begun, tasks.size()));
  }

  void add(const TuneTask& task, const TuneWinner& won) {
    const Trial& trial = won.trial;
    const auto time_of = [](const std::vector<double>& us) {
      return us.empty() ? "not measured" : format_time(mean_us(us) * 1e-3);
    };
    rows.push_back({task.operation, problems_text(task), time_of(trial.heuristic_us),
                    time_of(trial.us),
                    won.heuristic ? "1 (heuristic)" : fmt::format("{:.3f}", trial.ratio),
                    trial.config, fates_text(won)});
    results.push_back({{"operation", task.operation},
                       {"problems", settings_of(task)},
                       {"winner", trial.to_json()},
                       {"heuristic_won", won.heuristic},
                       {"no_gain", won.no_gain},
                       {"cut_by_budget", won.cut},
                       {"tried", won.tried},
                       {"seconds", won.seconds}});
    if (won.cut)
      print_error(
          fmt::format("{} {}: the budget ended before the final measurements, and a configuration "
                      "without one cannot win; raise --budget",
                      task.operation, problems_text(task)));
    table.add(task, won);
  }

  void note(const TuneTask& task, const std::string& error) {
    print_error(fmt::format("{} {}: {}", task.operation, problems_text(task), error));
    results.push_back({{"operation", task.operation},
                       {"problems", settings_of(task)},
                       {"error", error},
                       {"tried", 0}});
    ++failed;
  }
};

}  // namespace

std::string default_store() {
  const char* data = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  if (data && *data) return std::string(data) + "/ligerdsl/trials.jsonl";
  if (home && *home) return std::string(home) + "/.local/share/ligerdsl/trials.jsonl";
  throw Failure(
      kUsage,
      "neither XDG_DATA_HOME nor HOME is set; name the file of trials: ligerdsl tune --store "
      "FILE, or ligerdsl report FILE");
}

int tune(const Globals& globals, const TuneRequest& request) {
  const AuthorKernels authors(globals.load);
  if (!request.kernel.empty()) authors.find_or_op(request.kernel);
  if (request.kernel.empty() && request.sets.empty() && !request.all)
    throw Failure(kUsage, "tune: expected a kernel, --set (--model) or --all, got none of them");
  if (!request.kernel.empty() && (!request.sets.empty() || request.all))
    throw Failure(kUsage, fmt::format("tune: expected a kernel or sets of shapes, got both: {} and "
                                      "{}; omit one",
                                      request.kernel, request.all ? "--all" : "--set"));
  if (!request.kernel.empty() && !request.rows.empty())
    throw Failure(kUsage, fmt::format("tune: --rows needs --set or --all; pass the rows of {} as a "
                                      "setting, such as N=64",
                                      request.kernel));
  refuse_timing_hazards("tune");
  const std::string store_path = request.store.empty() ? default_store() : request.store;
  if (is_standard_output(request.export_to) && globals.json == "-")
    throw Failure(
        kUsage,
        "tune: --export and --json are both for standard output; name a file for one of them");
  if (is_standard_output(store_path))
    throw Failure(
        kUsage,
        "tune: --store: expected a file, because tune appends trials to it, got standard output");
  const std::pair<const char*, const std::string&> files[] = {{"--store", store_path},
                                                              {"--export", request.export_to},
                                                              {"--report", request.report},
                                                              {"--json", globals.json}};
  for (const auto& [option, file] : files) {
    for (const auto& [other, its] : files) {
      if (option != other && file != "-" && is_same_file(file, its))
        throw Failure(kUsage, fmt::format("tune: {} and {} are both {}; name two files", option,
                                          other, file));
    }
  }
  TableExport table(request.export_to);  // reports an unusable file before the search
  tune::Store store(store_path);
  std::map<std::string, Trial> known;
  if (request.resume) {
    for (Trial& trial : store.read()) known.insert_or_assign(trial.key, std::move(trial));
  }
  if (!request.report.empty()) {
    require_gnuplot("tune --report");
    check_writable(request.report);
  }
  const DeferredSignals signals;
  table.stop_waiting_at(signals.descriptor());
  Progress progress(globals);
  TuneRun run{
      .globals = globals, .request = request, .store = store, .table = table, .known = known};
  try {
    TuneTime time(signals, request.timeout_seconds, request.budget_seconds);
    run.all(authors, time, progress);
  } catch (const std::exception&) {
    if (!signals.arrived()) throw;  // else it is Stopped, or an error that a signal caused
    progress.clear();
    print_error(fmt::format(
        "interrupted: the trials so far are in \"{}\"; run again with --resume to continue",
        store.path()));
  }
  progress.clear();
  if (!table.is_printed() && globals.json != "-")
    print_table(
        globals,
        {"kernel", "problems", "heuristic", "best", "best / heuristic", "configuration", "trials"},
        run.rows);
  const bool written = table.finish(globals);
  // Writes the page even after Ctrl-C.
  if (!request.report.empty() && !run.trials.empty())
    write_file(request.report, report_page(tune::summarize(run.trials)));
  write_json(globals, {{"store", store.path()},
                       {"results", run.results},
                       {"export", table.json()},
                       {"interrupted", signals.arrived()}});
  flush_output();
  const bool none_searched = run.not_begun > 0 && run.rows.empty();
  return !written || none_searched ? kNothingFound : run.failed > 0 ? kCheckFailed : kOk;
}

}  // namespace ligerdsl::cli
