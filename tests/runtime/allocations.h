// Replaces operator new in this program. The replacement counts its calls, and fails on request.
#pragma once

#include <cstdint>

namespace ligerdsl::runtime::test {

int64_t allocations();  // number of calls since the start, by all threads

// While an object of this class exists, operator new fails on the thread that created the object.
class NoMemory {
 public:
  NoMemory();
  ~NoMemory();
  NoMemory(const NoMemory&) = delete;
};

}  // namespace ligerdsl::runtime::test
