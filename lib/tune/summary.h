// Summary of trials by task, without a device: progress of the search, effect of each field,
// failures and the winner.
#pragma once

#include <string>
#include <vector>

#include "lib/tune/trial.h"

namespace ligerdsl::tune {

// Returns the largest ratio over all problems of a trial's time to the heuristic's, or 0 without
// problems.
double worst_ratio(const Trial& trial);

// Largest ratio to the heuristic's time of a problem that counts as not slower; allows for noise.
constexpr double kNoSlower = 1.01;

// Returns the reason why a trial is no gain over the heuristic, or "". A gain is
// - faster over all problems by more than the noise: `heuristic_ratio` cubed. That is the
//   ratio of two times of the heuristic in one run, and
// - not slower on any problem.
std::string no_gain(const Trial& trial, double heuristic_ratio);

// Returns true if a trial refutes a table's configuration: it was wrong, did not end, was not
// faster overall, or was slower on a problem. A gain hidden by noise is not refuted. Neither is a
// configuration that does not compile, because plans never use it and it may compile later.
bool is_refuted(const Trial& trial);

// Returns a search's sort key for trials: the ratio, or if a problem is slower than `no_slower`
// times the heuristic, that problem's ratio. With fewer samples `no_slower` is larger, because they
// have more noise.
double cost(const Trial& trial, double no_slower);

// A configuration that was tried.
struct Candidate {
  Trial first;             // its first trial
  Trial best_known;        // its trial with the most samples
  double seconds = 0;      // seconds of searching until its result, or 0 if not recorded
  double best_so_far = 1;  // best ratio to the heuristic's time, including this configuration's
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
  std::string reason;  // first of several reasons that differ only in numbers
  std::string config;  // configuration of the first such failure
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
  bool gained = false;  // confirmed, and no_gain() returns ""
  double noted_seconds = 0;  // seconds of searching, or 0 if not recorded
  std::string began, ended;  // dates of the first and the last trial

  int64_t count(Fate fate) const;
};

// Returns tasks in the order of their first trials. A task has the trials of all runs with equal
// operation, options, problems, device and build.
std::vector<TaskSummary> summarize(const std::vector<Trial>& trials);

}  // namespace ligerdsl::tune
