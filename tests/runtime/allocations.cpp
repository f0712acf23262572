#include "allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> asked{0};
thread_local bool refused = false;

void* counted(size_t bytes) {
  ++asked;
  void* memory = refused ? nullptr : std::malloc(bytes);
  if (memory != nullptr) return memory;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(size_t bytes) {
  return counted(bytes);
}
void* operator new[](size_t bytes) {
  return counted(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}

namespace ligerdsl::runtime::test {

int64_t allocations() {
  return asked;
}

NoMemory::NoMemory() {
  refused = true;
}
NoMemory::~NoMemory() {
  refused = false;
}

}  // namespace ligerdsl::runtime::test
