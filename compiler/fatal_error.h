// What happens when LLVM gives up: it calls a handler and, when that returns, aborts the process.
#pragma once

namespace ligerdsl::compiler {

/// Makes LLVM's fatal and out-of-memory errors call `hook` with the reason, on the failing thread. The hook must not return:
/// it reports to whoever waits for the compile and parks the thread, whose frames cannot be unwound. Null restores LLVM's default.
void setFatalHook(void (*hook)(const char* reason));

/// Calls the hook for a failed allocation; returns when there is none, or on a thread that is not the hook's.
void reportBadAlloc();

}  // namespace ligerdsl::compiler
