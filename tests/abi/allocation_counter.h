// allocation_test.cpp replaces malloc and its family by versions that count.
#pragma once

#include <cstdint>

namespace ligerdsl::test {

// Returns the number of allocations of this process so far, without those of the CBLAS library
// within its matmuls.
int64_t allocations();

}  // namespace ligerdsl::test
