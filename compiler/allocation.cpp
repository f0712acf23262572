// What malloc is to this library: the C library's, but when it has no memory the fatal hook hears of it.
//
// MLIR uses what malloc returns without a look (every operation is allocated so), and a null pointer there is a crash
// of the process. The linker replaces all references in this library, those of LLVM's archives included (--wrap).
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
