// The search of one task for its fastest configuration.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "lib/cli/support/commands.h"
#include "lib/cli/tune/tune_device.h"
#include "lib/cli/tune/tune_tasks.h"
#include "lib/tune/store.h"
#include "lib/tune/worker_pool.h"

namespace ligerdsl::cli {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct TuneWinner {
  tune::Trial trial;
  int64_t tried = 0;
  std::map<tune::Fate, int64_t> fates;
  double seconds = 0;     // seconds of data, answers, trials and finals
  bool cut = false;       // the budget ended before the finals did
  bool heuristic = true;  // no configuration is a gain over the heuristic
  std::string no_gain;    // why the best other configuration is no gain; empty: none was right
  std::string refuted;    // why the table's entry is removed (wrong or slower when tried again);
                          // empty: it is not
};

struct TuneSearch {
  const TuneRequest& request;
  TuneTime& time;
  TuneDevice& device;
  tune::WorkerPool& assemblers;  // count 0: the worker assembles when it loads
  int compilers;                 // number of parallel compilers
  tune::Store& store;
  std::vector<tune::Trial>& trials;  // trials of this run in order, including known ones
  const std::map<std::string, tune::Trial>&
      known;  // earlier trials by configuration key; not measured again
  std::function<void(const std::string&)> show;  // shows the progress after every trial
};

// Searches one task. `budget_seconds` is the task's share including the finals; a step that does
// not fit is omitted. Throws Stopped, what the store and TuneDevice::open() throw, and BudgetOver
// if the whole budget ends before the task is opened.
TuneWinner search(const TuneSearch& how, const TuneTask& task, double budget_seconds);

}  // namespace ligerdsl::cli
