// Summary of trials by task, without a device: progress of the search, effect of each field,
// failures and the winner.
#pragma once

#include <string>
#include <vector>

#include "lib/tune/trial.h"

namespace ligerdsl::tune {

// Returns the largest ratio of a trial's time to the heuristic's over all problems, or 0 if there
// are none.
double worst_ratio(const Trial& trial);

// Ratio to the heuristic's time up to which a problem counts as not slower; it allows for noise.
constexpr double kNoSlower = 1.01;

// Returns the reason why a trial is no gain over the heuristic, or "". A gain is
// - faster over all problems by more than the noise: the third power of `heuristic_ratio`, the
//   factor by which the heuristic differs from itself in the same run, and
// - not slower on any problem.
std::string no_gain(const Trial& trial, double heuristic_ratio);

// Returns true if a trial refutes a configuration of a table: the result was wrong, the trial did
// not end, or it was not faster over all or slower on a problem. A gain that only noise hides is
// not refuted. Neither is a configuration that does not compile: plans never use it, and it may
// compile again.
bool is_refuted(const Trial& trial);

// Returns the value by which a search orders trials. It is the ratio, unless a problem is slower
// than `no_slower` times the heuristic; then it is that problem's ratio. With few samples
// `no_slower` is larger, because they have more noise.
double cost(const Trial& trial, double no_slower);

// A configuration that was tried.
struct Candidate {
  Trial first;             // its first trial
  Trial best_known;        // its trial with the most samples
  double seconds = 0;      // seconds of searching until its result; 0: not recorded
  double best_so_far = 1;  // ratio to the heuristic's time, this one included
};

// Distribution of numbers; all 0 if there are none.
struct Distribution {
  size_t count = 0;
  double least = 0, q25 = 0, median = 0, q75 = 0, q90 = 0;
};
Distribution distribution(std::vector<double> values);

// Ratios to the heuristic's time of configurations with this value of a field.
struct ValueEffect {
  std::string value;
  int64_t tried = 0, failed = 0;
  Distribution ratios;
};
struct FieldEffect {
  std::string field;
  std::vector<ValueEffect> values;  // numbers by value, words by name
};

struct FateCount {
  Fate fate;
  std::string reason;  // first of the reasons that differ only in numbers
  std::string config;  // configuration of the first
  int64_t count = 0;
};

struct TaskSummary {
  Trial about;                        // first trial: operation, options, problems, device, build
  std::vector<Candidate> candidates;  // in the order tried, without the heuristic
  std::vector<FieldEffect> effects;   // fields with more than one value
  std::vector<FateCount> failures;    // counts per fate and reason, most frequent first
  Trial heuristic;                    // trial with the most samples; empty config: not measured
  Trial winner;  // winner of the finals, or the best so far; empty config: no right result
  bool confirmed =
      false;            // the finals measured the winner with no fewer samples than the heuristic
  bool gained = false;  // confirmed, and no_gain() returns ""
  double noted_seconds = 0;  // seconds of searching; 0: not recorded
  std::string began, ended;  // dates

  int64_t count(Fate fate) const;
};

// Returns tasks in the order of their first trials. A task has all trials, of any run, of one
// operation with equal options, problems, device and build.
std::vector<TaskSummary> summarize(const std::vector<Trial>& trials);

}  // namespace ligerdsl::tune
