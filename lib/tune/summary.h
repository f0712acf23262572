// What trials say together, without a device: by task the way of the search, what each field of the configuration does,
// what failed, and who won.
#pragma once

#include <string>
#include <vector>

#include "lib/tune/trial.h"

namespace ligerdsl::tune {

// Of the times of a trial over the heuristic's, by problem, the largest; 0 where there are none.
double worst_ratio(const Trial& trial);

// What of the heuristic's time a problem may take where others gain: the rest is noise.
constexpr double kNoSlower = 1.01;

// Why a trial is no gain over the heuristic; empty: it is one. Over all problems it has to be faster by more than the
// noise, the third power of the factor by which the heuristic differs from itself in the same run, `heuristic_ratio`; and it is
// no slower on any of them.
std::string no_gain(const Trial& trial, double heuristic_ratio);

// Whether a trial speaks against a configuration that a table has, and not only for noise that hides its gain: it was not
// right, did not end, is not faster over all, or is slower on a problem. What cannot be built nobody takes, and it may be
// there again.
bool is_refuted(const Trial& trial);

// What a search orders trials by: the ratio, but where a problem is slower than `no_slower` of the heuristic's time,
// how slow that is. Few samples take more for noise than many do.
double cost(const Trial& trial, double no_slower);

// A configuration that was tried.
struct Candidate {
  Trial first;             // as the search met it
  Trial best_known;        // with most samples
  double seconds = 0;      // of searching, when it was known; 0: not noted
  double best_so_far = 1;  // of the heuristic's time, this one included
};

// Of numbers; all 0 where there are none.
struct Distribution {
  size_t count = 0;
  double least = 0, q25 = 0, median = 0, q75 = 0, q90 = 0;
};
Distribution distribution(std::vector<double> values);

// What configurations with this value of a field took, of the heuristic's time.
struct ValueEffect {
  std::string value;
  int64_t tried = 0, failed = 0;
  Distribution ratios;
};
struct FieldEffect {
  std::string field;
  std::vector<ValueEffect> values;  // numbers by size, words by name
};

struct FateCount {
  Fate fate;
  std::string reason;  // the first of those that differ in their numbers only
  std::string config;  // of the first
  int64_t count = 0;
};

struct TaskSummary {
  Trial about;                        // its first trial: operation, options, problems, device, build
  std::vector<Candidate> candidates;  // in the order tried, without the heuristic
  std::vector<FieldEffect> effects;   // of fields with more than one value
  std::vector<FateCount> failures;    // all that is not ok, the most frequent first; by fate and reason
  Trial heuristic;                    // measured with most samples; its config is empty where it was not
  Trial winner;                       // of the finals, or the best so far; its config is empty where nothing was right
  bool confirmed = false;             // the winner was measured as often as the heuristic, after the search
  bool gained = false;                // confirmed, and no_gain() has nothing to say
  double noted_seconds = 0;           // of searching; 0: not noted
  std::string began, ended;           // dates

  int64_t count(Fate fate) const;
};

// Tasks in the order of their first trials. Trials of one task are those of an operation and its options, problems,
// device and build, of whatever run.
std::vector<TaskSummary> summarize(const std::vector<Trial>& trials);

}  // namespace ligerdsl::tune
