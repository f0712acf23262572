// Counter of allocations. allocation_test.cpp replaces malloc and related functions with counting
// ones.
#pragma once

#include <cstdint>

namespace ligerdsl::test {

// Returns this process's number of allocations so far, except allocations by the CBLAS library in
// matmuls.
int64_t allocations();

}  // namespace ligerdsl::test
