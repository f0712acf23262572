// Word of device memory in which a kernel reports an invalid label, index or bound.
#pragma once

#include <cstdint>

namespace ligerdsl::kernels {

// An i64 error flag is 0 while every value is valid. Otherwise it is kErrorBase minus the lowest
// row with an invalid value. Kernels write it with atomic_max.
inline constexpr int64_t kErrorBase = INT64_MAX;

}  // namespace ligerdsl::kernels
