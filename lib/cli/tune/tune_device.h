// The worker of a device, as `ligerdsl tune` asks it (tune_worker.cpp): started again when it is gone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/cli/tune/tune_subject.h"
#include "lib/cli/tune/tune_time.h"
#include "lib/text/output.h"
#include "lib/tune/worker_process.h"
#include "ligerdsl/dsl/meta.h"

namespace ligerdsl::cli {

// The command that starts a worker.
std::vector<std::string> worker_arguments(const Globals& globals);

// Every function throws Stopped after a signal and BudgetOver when the time that it was given is over.
class TuneDevice {
 public:
  // Throws Failure with the worker's reason and exit code, as kNoDevice.
  TuneDevice(const Globals& globals, const TuneTime& time);

  // "arch", "units", "model", "driver", "ptx".
  const Json& description() const { return description_; }

  // Data and answers for these problems; seconds of one sample of the heuristic on all of them. Throws Failure for
  // settings that do not fit, and for a worker that twice ended before it had opened them, or hangs.
  double open(const TuneProblems& problems);
  // What copies take beside the problems that are open: "bytes" and "copy_us" of a copy of as many, by problem, and
  // "copy_gb_per_s" of a large one of "copy_bytes". Null where they cannot be measured, as where memory is short.
  Json ceilings();

  struct Attempt {
    const MetaValues& config;
    int samples;
    bool give_up;    // after a few samples that say that the configuration is much slower
    double seconds;  // after which it hangs
    const TimedStop& stop;
  };
  // "fate", "reason", and "us", "heuristic_us", "ratio" of what was measured. A worker that ends is the
  // configuration's fault.
  Json attempt(const Attempt& attempt);

 private:
  tune::WorkerProcess::Answer ask(const Json& question, double seconds, const TimedStop& stop);
  Json must_answer(const Json& question, const std::string& what, const TimedStop& stop);
  void reopen(const TimedStop& stop);

  const TuneTime& time_;
  std::vector<std::string> arguments_;
  std::unique_ptr<tune::WorkerProcess> worker_;
  std::string opened_;  // what is open, in words
  Json description_, open_, large_copy_;
};

}  // namespace ligerdsl::cli
