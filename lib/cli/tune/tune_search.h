// Search for a task's fastest configuration.
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
  double seconds = 0;     // seconds from opening the problems to the end of the finals
  bool cut = false;       // true if the budget ended before the finals did
  bool heuristic = true;  // true if no configuration is a gain over the heuristic
  std::string no_gain;    // why the best other configuration is no gain; empty if none was correct
  std::string refuted;    // why the table's entry is removed (wrong or slower now), or empty
};

struct TuneSearch {
  const TuneRequest& request;
  TuneTime& time;
  TuneDevice& device;
  tune::WorkerPool& assemblers;  // if it has no process, the worker itself assembles
  int compilers;                 // number of parallel compilers
  tune::Store& store;
  std::vector<tune::Trial>& trials;  // trials of this run in order, including known ones
  const std::map<std::string, tune::Trial>&
      known;  // earlier trials by Trial::key, which are not measured again
  std::function<void(const std::string&)> show;  // shows the progress after every trial
};

// Searches one task. `budget_seconds` is the task's share, including the finals; a step that would
// exceed it is omitted. Throws Stopped, errors of the store and TuneDevice::open(), and BudgetOver
// if the whole budget ends before the task is opened.
TuneWinner search(const TuneSearch& how, const TuneTask& task, double budget_seconds);

}  // namespace ligerdsl::cli
