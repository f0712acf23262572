// Calls into the compiler library, each on a thread of its own with a large stack.
//
// When LLVM gives up (a fatal error, or no memory) it calls a hook and expects to end the process. Its frames cannot be
// unwound, so the hook tells the caller, who gets an error, and parks the thread for ever. A thread that is parked for
// lack of memory, or while it links, may hold a lock of LLVM's: from then on calls of that kind are refused.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ligerdsl::runtime {

enum class CompilerCall : uint8_t { compile, link, unload };

// Runs `work` and waits; returns why LLVM gave up, or nothing. `work` must own all that it touches, since it may stay
// behind for ever. Throws OUT_OF_HOST_MEMORY when there is none to begin with, or a call before this one found that out
// too late; COMPILE_FAILED when an earlier call gave up while it linked; FORKED_PROCESS in a child that was forked
// while a thread of its parent was inside the compiler.
std::string run_in_compiler(CompilerCall call, std::function<void()> work);

// Marks that the calling thread is inside the compiler library, as run_in_compiler does by itself.
class InsideCompiler {
 public:
  InsideCompiler();  // throws FORKED_PROCESS
  ~InsideCompiler();
  InsideCompiler(const InsideCompiler&) = delete;
  InsideCompiler& operator=(const InsideCompiler&) = delete;

 private:
  uint32_t entered_;
};

// What the compiler library's set_fatal_hook gets. Returns on threads that are not ours, after a line on standard
// error.
void on_fatal_error(const char* reason) noexcept;

// The hook's reason says that memory ran out.
bool is_out_of_memory(std::string_view reason) noexcept;

}  // namespace ligerdsl::runtime
