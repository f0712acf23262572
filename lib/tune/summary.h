// Summary of trials by task, without a device: progress of the search, effect of each field,
// failures and the winner.
#pragma once

#include <string>
#include <vector>

#include "lib/tune/trial.h"

namespace ligerdsl::tune {

// Returns the largest ratio of a trial's time to the heuristic's time over all problems, or 0
// without problems.
double worst_ratio(const Trial& trial);

// A problem counts as not slower up to this ratio to the heuristic's time, which allows for noise.
constexpr double kNoSlower = 1.01;

// Returns the reason why a trial is no gain over the heuristic, or "". A trial is a gain if
// - it is faster over all problems by more than 0.5 % and by more than the noise, and
// - it is not slower on any problem.
// The noise is the cube of `heuristic_ratio`, the ratio of two times of the heuristic in one run.
std::string no_gain(const Trial& trial, double heuristic_ratio);

// Returns true if a trial refutes a table's configuration: its results were wrong, it crashed or
// did not end, it was not faster overall, or it was slower on a problem. A gain that is smaller
// than the noise is not refuted. A configuration that does not compile is not refuted either: plans
// never use it, and it may compile later.
bool is_refuted(const Trial& trial);

// Returns the key by which a search sorts trials: the ratio over all problems. If a problem takes
// more than `no_slower` times as long as with the heuristic, returns the slowest problem's ratio.
// `no_slower` is larger for few samples, which have more noise.
double cost(const Trial& trial, double no_slower);

// A configuration that was tried, with its trials.
struct Candidate {
  Trial first;             // its first trial
  Trial best_known;        // its trial with the most samples
  double seconds = 0;      // seconds of the search until its result, or 0 if not recorded
  double best_so_far = 1;  // best ratio to the heuristic's time up to this configuration
};

// Distribution of numbers; all fields are 0 if there are no numbers.
struct Distribution {
  size_t count = 0;
  double least = 0, q25 = 0, median = 0, q75 = 0, q90 = 0;
};
Distribution distribution(std::vector<double> values);

// Ratios to the heuristic's time of all configurations in which a field has this value.
struct ValueEffect {
  std::string value;
  int64_t tried = 0, failed = 0;
  Distribution ratios;
};
struct FieldEffect {
  std::string field;
  std::vector<ValueEffect> values;  // sorted: numbers by value, words by name
};

struct FateCount {
  Fate fate;
  std::string reason;  // first of several reasons that differ only in numbers
  std::string config;  // configuration that failed first for this reason
  int64_t count = 0;
};

struct TaskSummary {
  Trial about;                        // first trial: operation, options, problems, device, build
  std::vector<Candidate> candidates;  // in the order tried, without the heuristic
  std::vector<FieldEffect> effects;   // fields with more than one value
  std::vector<FateCount> failures;    // counts per fate and reason, most frequent first
  Trial heuristic;                    // trial with the most samples; empty config if none
  Trial winner;  // winner of the finals, or the best so far; config is empty without a correct one
  bool confirmed =
      false;            // the finals measured the winner with no fewer samples than the heuristic
  bool gained = false;  // true if it is confirmed and no_gain() returns ""
  double noted_seconds = 0;  // seconds of searching, or 0 if not recorded
  std::string began, ended;  // dates of the first and the last trial

  int64_t count(Fate fate) const;
};

// Returns tasks in the order of their first trials. A task has the trials of all runs with the same
// operation, kernel, options, problems, device, build and loaded files.
std::vector<TaskSummary> summarize(const std::vector<Trial>& trials);

}  // namespace ligerdsl::tune
