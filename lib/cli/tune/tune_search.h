// The search of one task: which configuration is fastest, trial by trial.
#pragma once

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

struct TuneWinner {
  tune::Trial trial;
  int64_t tried = 0;
  std::map<tune::Fate, int64_t> fates;
  double seconds = 0;     // of data, answers, trials and finals
  bool cut = false;       // the budget ended before the finals did
  bool heuristic = true;  // nothing is a gain over it
  std::string no_gain;    // of the best of the rest, why not; empty: nothing else was right
  std::string
      refuted;  // why the table's entry goes: tried again, it was not right or slower; empty: that was not found
};

struct TuneSearch {
  const TuneRequest& request;
  TuneTime& time;
  TuneDevice& device;
  tune::WorkerPool& assemblers;  // none: who loads assembles
  int compilers;                 // at a time
  tune::Store& store;
  std::vector<tune::Trial>& trials;                 // of this run, with those that were known, as they come
  const std::map<std::string, tune::Trial>& known;  // by key: not measured again
  std::function<void(const std::string&)> show;     // how it goes, after every trial
};

// `budget_seconds` is this task's share, its finals included; it ends what it does not fit. Throws Stopped, what the
// store and TuneDevice::open() throw, and BudgetOver where the whole budget ended before the task was opened.
TuneWinner search(const TuneSearch& how, const TuneTask& task, double budget_seconds);

}  // namespace ligerdsl::cli
