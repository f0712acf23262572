// Time limits of `ligerdsl tune`: --timeout bounds each step of a worker. The end of --budget, or a
// signal, stops all steps.
#pragma once

#include <exception>

#include "lib/cli/support/deferred_signals.h"
#include "lib/tune/deadline.h"

namespace ligerdsl::cli {

// Thrown if a signal arrived while the tuner waited for a worker.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

// Thrown if the time for a step ended before the step did. The configuration may be correct.
struct BudgetOver : std::exception {
  const char* what() const noexcept override { return "the budget is over"; }
};

// A descriptor that becomes readable when a signal has arrived or a deadline has passed.
class TimedStop {
 public:
  TimedStop(const DeferredSignals& signals, tune::Deadline until);
  ~TimedStop();
  TimedStop(const TimedStop&) = delete;

  void set(tune::Deadline until);
  bool passed() const { return until_.passed(); }
  double left() const { return until_.left(); }
  int descriptor() const { return either_; }

 private:
  tune::Deadline until_;
  int timer_ = -1, either_ = -1;
};

class TuneTime {
 public:
  TuneTime(const DeferredSignals& signals, double timeout_seconds, double budget_seconds);

  double timeout_seconds() const { return timeout_seconds_; }
  // Returns the seconds allowed to open the device, or to make the data and float64 results and run
  // the heuristic.
  double opening_seconds() const;
  // Returns the seconds allowed for a trial. `measuring_seconds`: time to measure a configuration
  // as fast as the heuristic.
  double trial_seconds(double measuring_seconds) const;

  const TimedStop& whole() const { return whole_; }    // ends at the end of the budget
  const TimedStop& search() const { return search_; }  // ends when the task's finals must begin
  void search_until(tune::Deadline until) { search_.set(earlier(until, end_)); }

  // Throws Stopped after a signal and BudgetOver at the end of the budget.
  void require_going_on() const;
  bool interrupted() const { return signals_.arrived(); }

 private:
  const DeferredSignals& signals_;
  const double timeout_seconds_;
  const tune::Deadline end_;
  TimedStop whole_, search_;
};

}  // namespace ligerdsl::cli
