#include "compiler/fatal_error.h"

#include <atomic>
#include <mutex>

#include "llvm/Support/ErrorHandling.h"

namespace ligerdsl::compiler {
namespace {

std::atomic<void (*)(const char*)> currentHook{nullptr};

void onFatalError(void*, const char* reason, bool) {
  if (auto* hook = currentHook.load()) hook(reason ? reason : "LLVM gave no reason");
}

}  // namespace

void setFatalHook(void (*hook)(const char*)) {
  static std::once_flag installed;
  std::call_once(installed, [] {
    llvm::install_fatal_error_handler(onFatalError);
    llvm::install_bad_alloc_error_handler(onFatalError);
  });
  currentHook.store(hook);
}

}  // namespace ligerdsl::compiler
