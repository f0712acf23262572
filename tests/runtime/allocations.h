// Replaces operator new of this program: counts its calls, and fails on request.
#pragma once

#include <cstdint>

namespace ligerdsl::runtime::test {

int64_t allocations();  // of all threads since the start

// While an object of this class exists, operator new fails on this thread.
class NoMemory {
 public:
  NoMemory();
  ~NoMemory();
  NoMemory(const NoMemory&) = delete;
};

}  // namespace ligerdsl::runtime::test
