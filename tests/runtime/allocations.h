// The operator new of this program: counted, and refused on demand.
#pragma once

#include <cstdint>

namespace ligerdsl::runtime::test {

int64_t allocations();  // so far, of all threads

// While it lives, this thread gets no memory from operator new.
class NoMemory {
 public:
  NoMemory();
  ~NoMemory();
  NoMemory(const NoMemory&) = delete;
};

}  // namespace ligerdsl::runtime::test
