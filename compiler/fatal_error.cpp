#include "compiler/fatal_error.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "compiler/compiler_api.h"
#include "llvm/Support/ErrorHandling.h"

namespace ligerdsl::compiler {
namespace {

std::atomic<void (*)(const char*)> currentHook{nullptr};

void onFatalError(void*, const char* reason, bool) {
  if (auto* hook = currentHook.load()) hook(reason ? reason : "LLVM gave no reason");
}

constexpr const char* kOutOfMemory = LIGERDSL_OUT_OF_MEMORY ": an allocation of LLVM failed";

// Handles LLVM's failed allocations. LLVM is built without exceptions, so no exception may pass
// through its frames. LLVM assumes that this handler does not return.
void onBadAlloc(void*, const char*, bool) {
  reportBadAlloc();
  std::fprintf(stderr, "ligerdsl: the process ends: %s\n", kOutOfMemory);
  std::abort();
}

}  // namespace

void reportBadAlloc() {
  if (auto* hook = currentHook.load()) hook(kOutOfMemory);
}

void setFatalHook(void (*hook)(const char*)) {
  static std::once_flag installed;
  std::call_once(installed, [] {
    llvm::install_fatal_error_handler(onFatalError);
    llvm::install_bad_alloc_error_handler(onBadAlloc);
    llvm::install_out_of_memory_new_handler();
  });
  currentHook.store(hook);
}

}  // namespace ligerdsl::compiler
