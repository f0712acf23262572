// Compiling in a process of its own: whatever the compiler does there, this process gets an answer.
//
// The worker is a small program installed beside the compiler library. It is started with posix_spawn, which copies no
// page table and runs no fork handler, so a process with a live CUDA context may use it; it inherits no descriptor but
// its own three; it dies with the thread that waits for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/compile/compile_message.h"
#include "runtime/environment/options.h"

namespace ligerdsl::runtime {

// Where compiles run, and what a worker may use.
struct CompileIsolation {
  CompileMode mode = CompileMode::thread;
  std::string worker;        // path of the worker; empty: ligerdsl/compile-worker beside the compiler library
  int32_t seconds = 120;     // of wall time and of processor time
  int32_t megabytes = 4096;  // of address space; 0: no limit
  int stop = -1;             // a descriptor: when it becomes readable, the worker is killed; -1: nothing stops it
};

struct CompileAnswer {
  CompileOutcome outcome = CompileOutcome::crashed;
  std::string artifact;
  std::string error;  // one sentence, and what the worker printed
};

// The program that a compile starts.
std::string worker_path(const CompileIsolation& isolation, const std::string& compiler_path);

// Runs one compile in a worker and waits for it. Never throws for what the worker does.
CompileAnswer compile_in_process(const CompileIsolation& isolation, const std::string& compiler_path,
                                 std::string_view program, std::string_view options);

}  // namespace ligerdsl::runtime
