// Handlers for LLVM's fatal errors. LLVM calls a handler and ends the process if it returns.
#pragma once

namespace ligerdsl::compiler {

/// Makes LLVM's fatal and out-of-memory errors call `hook` with the reason, on the failing thread.
/// The hook must not return, because LLVM's frames cannot be unwound. It reports to the thread that
/// waits for the compile, and blocks its own thread. With a null hook, LLVM ends the process.
void setFatalHook(void (*hook)(const char* reason));

/// Calls the hook for a failed allocation. Returns if there is no hook, or if the thread is unknown
/// to the hook.
void reportBadAlloc();

}  // namespace ligerdsl::compiler
