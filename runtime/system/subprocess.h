// Starts a program and reads its output. The arguments are a vector, not a command of a shell.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ligerdsl::runtime {

struct ProcessLimits {
  size_t output_bytes = size_t{256}
                        << 20;  // limit of the stored output; further output is read and dropped
  int stop = -1;  // the program is killed when this descriptor becomes readable; -1 for none
};

struct ProcessResult {
  std::string output;    // standard output and standard error, in the order written
  bool cut = false;      // the output exceeded the limit
  bool stopped = false;  // killed because of ProcessLimits::stop
  bool succeeded = false;
  std::string end;  // "exit status 3", "killed by SIGSEGV"
};

// Runs the program arguments[0] until it ends. The program is looked up in PATH unless its name has
// a slash. Its standard input is empty. Throws Error (NOT_SUPPORTED) if it cannot be started.
ProcessResult run_process(const std::vector<std::string>& arguments,
                          const ProcessLimits& limits = {});

// Returns a command line that a POSIX shell parses back to the arguments, for messages.
std::string command_line(const std::vector<std::string>& arguments);

}  // namespace ligerdsl::runtime
