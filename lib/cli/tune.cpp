// `ligerdsl tune`: tries configurations of kernels, keeps every trial, and exports those that won.
//
// This process has no context of the device: a worker (tune_worker.cpp) runs what may hang or crash, and compilers run
// beside it, into the disk cache that the worker loads from.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "lib/cli/authors.h"
#include "lib/cli/commands.h"
#include "lib/cli/deferred_signals.h"
#include "lib/cli/distortions.h"
#include "lib/cli/gnuplot.h"
#include "lib/cli/printable.h"
#include "lib/cli/report_page.h"
#include "lib/cli/tune_device.h"
#include "lib/cli/tune_export.h"
#include "lib/cli/tune_search.h"
#include "lib/cli/tune_tasks.h"
#include "lib/tune/store.h"

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

std::string problems_text(const TuneTask& task) {
  std::string text = fmt::format("{}", fmt::join(task.problems.front(), " "));
  return task.problems.size() == 1 ? text : fmt::format("{} and {} more", text, task.problems.size() - 1);
}

Json settings_of(const TuneTask& task) {
  Json texts = Json::array();
  for (const auto& settings : task.problems) texts.push_back(fmt::format("{}", fmt::join(settings, " ")));
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

// The driver assembles in a fraction of the time that compiling takes, and each process of it holds memory of the GPU.
int assemblers_for(const Globals& globals, int compilers) {
  constexpr int kCompilersOfOne = 4, kMost = 4;
  return globals.device == "cpu" ? 0 : std::clamp(compilers / kCompilersOfOne, 1, kMost);
}

}  // namespace

std::string default_store() {
  const char* data = std::getenv("XDG_DATA_HOME");
  const char* home = std::getenv("HOME");
  if (data && *data) return std::string(data) + "/ligerdsl/trials.jsonl";
  if (home && *home) return std::string(home) + "/.local/share/ligerdsl/trials.jsonl";
  throw Failure(kUsage, "neither XDG_DATA_HOME nor HOME is set; name the file of trials");
}

int tune(const Globals& globals, const TuneRequest& request) {
  const AuthorKernels authors(globals.load);
  if (!request.kernel.empty()) authors.find_or_op(request.kernel);
  if (request.kernel.empty() && request.sets.empty() && !request.all)
    throw Failure(kUsage, "tune: name a kernel, --set or --model, or --all");
  if (!request.kernel.empty() && (!request.sets.empty() || request.all || !request.rows.empty()))
    throw Failure(kUsage, "tune: name a kernel or sets of shapes, not both; --rows is of the sets");
  refuse_distortions("tune");
  const std::string store_path = request.store.empty() ? default_store() : request.store;
  if (is_standard_output(request.export_to) && globals.json == "-")
    throw Failure(kUsage, "tune: --export and --json are both for standard output; name a file for one of them");
  if (is_standard_output(store_path))
    throw Failure(kUsage, "tune: --store names a file that trials are added to, not standard output");
  const std::pair<const char*, const std::string&> files[] = {
      {"--store", store_path}, {"--export", request.export_to}, {"--report", request.report}, {"--json", globals.json}};
  for (const auto& [option, file] : files) {
    for (const auto& [other, its] : files) {
      if (option != other && file != "-" && is_same_file(file, its))
        throw Failure(kUsage, fmt::format("tune: {} and {} are both {}; name two files", option, other, file));
    }
  }
  TableExport table(request.export_to);  // a file that cannot be, before the search
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
  std::vector<Trial> trials;
  std::vector<std::vector<std::string>> rows;
  Json results = Json::array();
  int64_t failed = 0;
  Progress progress(globals);
  try {
    TuneDevice device(globals, signals);
    const int compilers =
        request.jobs > 0 ? request.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    // Behind the device: the driver makes one context at a time, however many processes ask.
    tune::WorkerPool assemblers(worker_arguments(globals), assemblers_for(globals, compilers), request.timeout_seconds,
                                signals.descriptor());
    std::vector<TuneTask> tasks = tune_tasks(globals, request, authors, device.description(), signals.descriptor());
    const TuneSearch how{request, device, assemblers, compilers,
                         store,   trials, known,      [&](const std::string& text) { progress.show(text); }};
    const auto began = Clock::now();
    size_t not_begun = 0;
    for (size_t i = 0; i < tasks.size(); ++i) {
      TuneTask& task = tasks[i];
      if (i > 0 && seconds_since(began) > request.budget_seconds) {
        results.push_back({{"operation", task.operation}, {"problems", settings_of(task)}, {"tried", 0}});
        ++not_begun;
        continue;
      }
      const double budget = (request.budget_seconds - seconds_since(began)) / static_cast<double>(tasks.size() - i);
      task.entry = table.entry_of(task, device.description());
      TuneWinner won;
      try {
        won = search(how, task, budget);
      } catch (const Failure& failure) {
        if (tasks.size() == 1 || failure.code == kNoDevice) throw;
        progress.clear();  // of many searches one that cannot be, as where memory is short, does not cost the others
        print_error(fmt::format("{} {}: {}", task.operation, problems_text(task), failure.what()));
        results.push_back(
            {{"operation", task.operation}, {"problems", settings_of(task)}, {"error", failure.what()}, {"tried", 0}});
        ++failed;
        continue;
      }
      progress.clear();
      const Trial& trial = won.trial;
      rows.push_back({task.operation, problems_text(task), format_time(mean_us(trial.heuristic_us) * 1e-3),
                      format_time(mean_us(trial.us) * 1e-3),
                      won.heuristic ? "1, the heuristic's" : fmt::format("{:.3f}", trial.ratio), trial.config,
                      fates_text(won)});
      results.push_back({{"operation", task.operation},
                         {"problems", settings_of(task)},
                         {"winner", trial.to_json()},
                         {"heuristic_won", won.heuristic},
                         {"no_gain", won.no_gain},
                         {"tried", won.tried},
                         {"seconds", won.seconds}});
      table.add(task, won);
    }
    if (not_begun > 0)
      print_error(fmt::format("the budget of {:g} s is over: {} of {} searches were not begun", request.budget_seconds,
                              not_begun, tasks.size()));
  } catch (const std::exception&) {
    if (!signals.arrived()) throw;  // Stopped, or what a signal broke off
    print_error(fmt::format("interrupted: every trial is in \"{}\"; --resume goes on from there", store.path()));
  }
  progress.clear();
  if (!table.is_printed() && globals.json != "-")
    print_table(globals, {"kernel", "problems", "heuristic", "best", "of its time", "configuration", "trials"}, rows);
  const bool written = table.finish(globals);
  // What was tried is worth a page after Ctrl-C, too.
  if (!request.report.empty() && !trials.empty()) write_file(request.report, report_page(tune::summarize(trials)));
  write_json(
      globals,
      {{"store", store.path()}, {"results", results}, {"export", table.json()}, {"interrupted", signals.arrived()}});
  flush_output();
  return !written ? kNothingFound : failed > 0 ? kCheckFailed : kOk;
}

}  // namespace ligerdsl::cli
