// Keeps LLVM's fatal errors from ending the host process.
#pragma once

#include <functional>
#include <string>

namespace ligerdsl::compiler {

/// Runs `work` on a thread of its own (8 MB stack) and waits. When LLVM reports a fatal error there, the thread is parked for
/// ever (its frames cannot be unwound), `message` receives the report and the result is false. `work` must own what it touches.
/// Throws nothing; a thread that cannot be created counts as a failure with a message.
bool runGuardingFatalErrors(std::function<void()> work, std::string& message);

}  // namespace ligerdsl::compiler
