// Compiles in a separate process. Whatever the compiler does there, this process gets an answer.
//
// The worker is a small program that is installed next to the compiler library. The library starts
// it by posix_spawn, which copies no page table and runs no fork handler. A process with a live
// CUDA context may therefore use it. The worker inherits only its own three descriptors. It dies
// with the thread that waits for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/compile/compile_message.h"
#include "runtime/environment/options.h"

namespace ligerdsl::runtime {

// Place and limits of compiles.
struct CompileIsolation {
  CompileMode mode = CompileMode::thread;
  std::string
      worker;  // path of the worker; if empty, ligerdsl/compile-worker next to the compiler library
  int32_t seconds = 120;     // limit of wall time and of processor time
  int32_t megabytes = 4096;  // limit of address space; 0 for no limit
  int stop = -1;  // descriptor that kills the worker when it becomes readable; -1 for none
};

struct CompileAnswer {
  CompileOutcome outcome = CompileOutcome::crashed;
  std::string artifact;
  std::string error;  // one sentence, then the worker's output
};

// Returns the path of the worker.
std::string worker_path(const CompileIsolation& isolation, const std::string& compiler_path);

// Runs one compile in a worker and waits for it. A failure of the worker is an answer, never an
// exception.
CompileAnswer compile_in_process(const CompileIsolation& isolation,
                                 const std::string& compiler_path, std::string_view program,
                                 std::string_view options);

}  // namespace ligerdsl::runtime
