// A process that tries configurations. If it crashes or hangs, only the current configuration
// fails.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/tune/deadline.h"
#include "lib/tune/trial.h"

namespace ligerdsl::tune {

class WorkerProcess {
 public:
  // Starts arguments[0], which exchanges JSON messages, one per line, on its standard input and
  // output. Throws runtime::Error if it cannot be started.
  explicit WorkerProcess(const std::vector<std::string>& arguments);
  // Kills the process and its children. If the process does not end within a few seconds, for
  // example inside a GPU driver, leaves it running.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;

  enum class Outcome : uint8_t { answered, ended, timed_out, stopped };
  struct Answer {
    Outcome outcome;
    Json json;        // answer, for Outcome::answered
    std::string end;  // end of the process: "killed by SIGSEGV", "stopped by SIGSTOP"
  };
  // Sends a question and waits for the answer. `stop` is -1, or a descriptor that ends the wait
  // when it becomes readable. After any outcome but `answered` the process is gone.
  Answer ask(const Json& question, Deadline until, int stop);
  // Returns false once the process has ended, for any reason.
  bool running();

 private:
  enum class Wait : uint8_t { ready, timed_out, stopped };
  Wait wait_for(short events, Deadline until, int stop) const;
  Answer gave_up(Wait wait);
  Answer gone(Outcome outcome);
  Answer gone(Outcome outcome, std::string end);

  int pid_ = -1, in_ = -1, out_ = -1;
  std::string read_;  // beginning of the next line
};

}  // namespace ligerdsl::tune
