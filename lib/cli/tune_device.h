// The worker of a device, as `ligerdsl tune` asks it (tune_worker.cpp): started again when it is gone.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "lib/cli/deferred_signals.h"
#include "lib/cli/output.h"
#include "lib/cli/tune_subject.h"
#include "lib/tune/worker_process.h"
#include "ligerdsl/dsl/meta.h"

namespace ligerdsl::cli {

// Ctrl-C while a worker was asked.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

// The command that starts a worker.
std::vector<std::string> worker_arguments(const Globals& globals);

class TuneDevice {
 public:
  // Throws Failure with the worker's reason and exit code, as kNoDevice.
  TuneDevice(const Globals& globals, const DeferredSignals& signals);

  // "arch", "units", "model", "driver", "ptx".
  const Json& description() const { return description_; }

  // Data and answers for these problems; seconds of one sample of the heuristic on all of them. Throws Failure for
  // settings that do not fit.
  double open(const TuneProblems& problems);
  // What copies take beside the problems that are open: "bytes" and "copy_us" of a copy of as many, by problem, and
  // "copy_gb_per_s" of a large one of "copy_bytes". Null where they cannot be measured, as where memory is short.
  Json ceilings();

  // "fate", "reason", and "us", "heuristic_us", "ratio" of what was measured. A worker that is gone is the
  // configuration's fault. With `give_up` it is not measured to the end where a few samples say that it is much slower.
  Json attempt(const MetaValues& config, int samples, bool give_up, double seconds);
  // Throws Stopped after a Ctrl-C.
  void require_going_on() const {
    if (signals_.arrived()) throw Stopped();
  }

 private:
  tune::WorkerProcess::Answer ask(const Json& question, double seconds);
  Json must_answer(const Json& question);

  const DeferredSignals& signals_;
  std::vector<std::string> arguments_;
  std::unique_ptr<tune::WorkerProcess> worker_;
  Json description_, open_, large_copy_;
};

}  // namespace ligerdsl::cli
