// Compiles in a separate process. The caller gets an answer even if the compiler crashes or hangs.
//
// The worker is a small program that is installed next to the compiler library. The library starts
// the worker by posix_spawn, which copies no page table and runs no fork handler. A process with a
// live CUDA context can therefore start it. The worker inherits only descriptors for the request,
// the answer and its output. It dies with the thread that waits for it.
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
  int32_t seconds = 120;     // limit of wall time, and of processor time, in seconds
  int32_t megabytes = 4096;  // limit of address space in MiB; 0 for no limit
  int stop = -1;  // the worker is killed when this descriptor becomes readable; -1 for none
};

struct CompileAnswer {
  CompileOutcome outcome = CompileOutcome::crashed;
  std::string artifact;
  std::string error;  // one sentence, then the worker's output
};

std::string worker_path(const CompileIsolation& isolation, const std::string& compiler_path);

// Runs one compile in a worker and waits for it. If the worker fails, the answer says so; nothing
// is thrown.
CompileAnswer compile_in_process(const CompileIsolation& isolation,
                                 const std::string& compiler_path, std::string_view program,
                                 std::string_view options);

}  // namespace ligerdsl::runtime
