// Starting a program and reading what it prints: an argument vector, never a shell.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ligerdsl::runtime {

struct ProcessLimits {
  size_t output_bytes = size_t{256} << 20;  // kept of what the program prints; more is read and dropped
  int stop = -1;  // a descriptor: when it becomes readable, the program is killed; -1: nothing stops it
};

struct ProcessResult {
  std::string output;    // of standard output and standard error, in the order written
  bool cut = false;      // there was more of it than the limit
  bool stopped = false;  // killed because of ProcessLimits::stop
  bool succeeded = false;
  std::string end;  // "exit status 3", "killed by SIGSEGV"
};

// Runs arguments[0], looked up in PATH unless it has a slash, until it ends. Its standard input is empty. Throws Error
// (NOT_SUPPORTED) when it cannot be started.
ProcessResult run_process(const std::vector<std::string>& arguments, const ProcessLimits& limits = {});

// The arguments as a line that a POSIX shell reads back as they are: for messages.
std::string command_line(const std::vector<std::string>& arguments);

}  // namespace ligerdsl::runtime
