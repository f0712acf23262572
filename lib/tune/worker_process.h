// A process that tries configurations, so that one that crashes or hangs costs that configuration only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/tune/deadline.h"
#include "lib/tune/trial.h"

namespace ligerdsl::tune {

class WorkerProcess {
 public:
  // Starts arguments[0]; its messages are JSON, a line each, on its standard input and output. Throws runtime::Error
  // where it cannot be started.
  explicit WorkerProcess(const std::vector<std::string>& arguments);
  // Kills the process and everything that it has started. A process that the kernel does not release, as inside a GPU
  // driver, is left behind after a few seconds.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;

  enum class Outcome : uint8_t { answered, ended, timed_out, stopped };
  struct Answer {
    Outcome outcome;
    Json json;        // answered
    std::string end;  // ended: "killed by SIGSEGV", "stopped by SIGSTOP"
  };
  // `stop`: a descriptor that, when readable, ends the wait; -1: none. After anything but an answer the process is gone.
  Answer ask(const Json& question, Deadline until, int stop);
  // False once the process has ended, for whatever reason.
  bool running();

 private:
  enum class Wait : uint8_t { ready, timed_out, stopped };
  Wait wait_for(short events, Deadline until, int stop) const;
  Answer gave_up(Wait wait);
  Answer gone(Outcome outcome);
  Answer gone(Outcome outcome, std::string end);

  int pid_ = -1, in_ = -1, out_ = -1;
  std::string read_;  // of the next line
};

}  // namespace ligerdsl::tune
