// Wrappers of malloc, calloc and realloc for this library. If an allocation fails, they call the
// fatal hook.
//
// MLIR allocates every operation with malloc and does not check the result, so a null pointer would
// crash the process. The linker option --wrap redirects every call in this library, including the
// calls in LLVM's archives.
#include <cstddef>

#include "compiler/fatal_error.h"

extern "C" {

void* __real_malloc(size_t bytes);
void* __real_calloc(size_t count, size_t bytes);
void* __real_realloc(void* memory, size_t bytes);

void* __wrap_malloc(size_t bytes) {
  void* memory = __real_malloc(bytes);
  if (!memory && bytes) ligerdsl::compiler::reportBadAlloc();
  return memory;
}

void* __wrap_calloc(size_t count, size_t bytes) {
  void* memory = __real_calloc(count, bytes);
  if (!memory && count && bytes) ligerdsl::compiler::reportBadAlloc();
  return memory;
}

void* __wrap_realloc(void* old, size_t bytes) {
  void* memory = __real_realloc(old, bytes);
  if (!memory && bytes) ligerdsl::compiler::reportBadAlloc();
  return memory;
}

}  // extern "C"
