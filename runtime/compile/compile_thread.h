// Calls into the compiler library, each on its own thread with a large stack.
//
// After a fatal error, or if memory runs out, LLVM calls a hook and expects the process to end. Its
// stack frames cannot be unwound. The hook therefore passes the reason to the caller, who gets an
// error, and parks the thread forever. The parked thread may hold an LLVM lock. If it ran out of
// memory, all later calls fail at once. If it was linking or unloading, later calls that link or
// unload fail.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ligerdsl::runtime {

enum class CompilerCall : uint8_t { compile, link, unload };

// Runs `work` and waits for it. Returns LLVM's reason after a fatal error, else "". `work` must own
// everything that it touches, because its thread may be parked forever. Errors:
//
//   * OUT_OF_HOST_MEMORY: too little memory, now or earlier
//   * COMPILE_FAILED: `call` is link or unload, and an earlier one failed fatally
//   * FORKED_PROCESS: forked while a thread was inside the compiler
std::string run_in_compiler(CompilerCall call, std::function<void()> work);

// Marks the calling thread as inside the compiler library. run_in_compiler creates one itself.
class InsideCompiler {
 public:
  InsideCompiler();  // throws FORKED_PROCESS
  ~InsideCompiler();
  InsideCompiler(const InsideCompiler&) = delete;
  InsideCompiler& operator=(const InsideCompiler&) = delete;

 private:
  uint32_t entered_;
};

// Hook for set_fatal_hook of the compiler library. On a thread that run_in_compiler did not start,
// it prints a line to standard error and returns.
void on_fatal_error(const char* reason) noexcept;

// Returns true if this reason of a fatal error is lack of memory.
bool is_out_of_memory(std::string_view reason) noexcept;

}  // namespace ligerdsl::runtime
