// Calls into the compiler library, each on its own thread with a large stack.
//
// After a fatal error, or out of memory, LLVM calls a hook and expects the process to end. Its
// frames cannot be unwound. The hook therefore passes the reason to the caller, who gets an error,
// and parks the thread forever. A thread that is parked for lack of memory, or while it links, may
// hold an LLVM lock. Later calls of that kind then fail at once.
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
//   * OUT_OF_HOST_MEMORY: not enough memory, or memory ran out inside an earlier call
//   * COMPILE_FAILED: LLVM failed fatally in an earlier call that linked
//   * FORKED_PROCESS: a child, forked while a thread of its parent was inside the compiler
std::string run_in_compiler(CompilerCall call, std::function<void()> work);

// Marks the calling thread as inside the compiler library; run_in_compiler does so itself.
class InsideCompiler {
 public:
  InsideCompiler();  // throws FORKED_PROCESS
  ~InsideCompiler();
  InsideCompiler(const InsideCompiler&) = delete;
  InsideCompiler& operator=(const InsideCompiler&) = delete;

 private:
  uint32_t entered_;
};

// Hook for the compiler library's set_fatal_hook. On threads of other code it prints a line to
// standard error and returns.
void on_fatal_error(const char* reason) noexcept;

// Returns true if the hook's reason is lack of memory.
bool is_out_of_memory(std::string_view reason) noexcept;

}  // namespace ligerdsl::runtime
