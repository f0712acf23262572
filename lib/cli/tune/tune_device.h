// Client of a device's worker process (tune_worker.cpp). Starts the worker again after a crash.
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

// Returns the command that starts a worker.
std::vector<std::string> worker_arguments(const Globals& globals);

// Every function throws Stopped after a signal, and BudgetOver when its time is over.
class TuneDevice {
 public:
  // Throws Failure with the worker's reason and exit code, for example kNoDevice.
  TuneDevice(const Globals& globals, const TuneTime& time);

  // Returns "arch", "units", "model", "driver" and "ptx" of the device.
  const Json& description() const { return description_; }

  // Lets the worker make data and expected results for these problems. Returns the seconds of one
  // sample of the heuristic on all of them. Throws Failure for invalid settings, and if the worker
  // hangs or ends twice.
  double open(const TuneProblems& problems);
  // Measures copies. Returns "copy_us", the time to copy "bytes", for each open problem, and
  // "copy_gb_per_s" of a large copy of "copy_bytes". Returns null if copies cannot be measured, for
  // example for lack of memory.
  Json ceilings();

  struct Attempt {
    const MetaValues& config;
    int samples;
    bool give_up;    // stop after a few samples if the configuration is much slower
    double seconds;  // time after which the worker counts as hanging
    const TimedStop& stop;
  };
  // Returns "fate" and "reason", and after a measurement "us", "heuristic_us" and "ratio". If the
  // worker ends, the configuration counts as failed.
  Json attempt(const Attempt& attempt);

 private:
  tune::WorkerProcess::Answer ask(const Json& question, double seconds, const TimedStop& stop);
  Json must_answer(const Json& question, const std::string& what, const TimedStop& stop);
  void reopen(const TimedStop& stop);

  const TuneTime& time_;
  std::vector<std::string> arguments_;
  std::unique_ptr<tune::WorkerProcess> worker_;
  std::string opened_;  // kernel and settings of the open problems, for errors
  Json description_, open_, large_copy_;
};

}  // namespace ligerdsl::cli
