// A process that tries configurations, so that one that crashes or hangs costs that configuration only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/tune/trial.h"

namespace ligerdsl::tune {

class WorkerProcess {
 public:
  // Starts arguments[0]; its messages are JSON, a line each, on its standard input and output. Throws runtime::Error
  // where it cannot be started.
  explicit WorkerProcess(const std::vector<std::string>& arguments);
  // Kills it, and what it has started.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;

  enum class Outcome : uint8_t { answered, ended, timed_out, stopped };
  struct Answer {
    Outcome outcome;
    Json json;        // answered
    std::string end;  // ended: "killed by SIGSEGV", with what it printed last
  };
  // `stop`: a descriptor that, when readable, ends the wait; -1: none. After anything but an answer the process is gone.
  Answer ask(const Json& question, double seconds, int stop);

 private:
  Answer gone(Outcome outcome);

  int pid_ = -1, in_ = -1, out_ = -1;
  std::string read_;  // of the next line
};

}  // namespace ligerdsl::tune
