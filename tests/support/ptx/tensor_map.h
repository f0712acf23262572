// The emulator's CUtensorMap: the tensor and the box of a TMA copy. The fake driver and the backend
// `ptx` write it, and the emulator reads it.
#pragma once

#include <cstdint>
#include <cstring>

#include "runtime/kernel/cuda_api.h"

namespace ligerdsl::test::ptx {

// Sizes, strides and box start with the innermost dimension.
struct alignas(64) TensorMap {
  uint64_t address, sizes[5];
  int64_t strides[4];  // in bytes, without the innermost dimension
  int32_t box[5];
  int32_t rank, element_bytes, swizzle, rounds_to_tf32;
  int32_t unused[3];
};
static_assert(sizeof(TensorMap) == sizeof(runtime::cuda::TensorMap));

// Writes the map to `to`. Returns an error if a real driver rejects the arguments, or if the
// emulator does not support them.
inline runtime::cuda::Result encode(runtime::cuda::TensorMap* to, int type, unsigned rank,
                                    void* address, const uint64_t* sizes, const uint64_t* strides,
                                    const unsigned* box, const unsigned* steps, int interleave,
                                    int swizzle, int promotion, int outside) {
  namespace cuda = runtime::cuda;
  constexpr uint64_t kMost = uint64_t{1} << 32, kMostStride = uint64_t{1} << 40;
  const bool of_bytes = type == cuda::map_uint8, of_tf32 = type == cuda::map_tfloat32,
             of_words = of_tf32 || type == cuda::map_float32;
  const bool known =
      (of_bytes || of_words || type == cuda::map_float16 || type == cuda::map_bfloat16) &&
      rank >= 1 && rank <= 5 && interleave == 0 && outside == 0 && promotion >= 0 &&
      promotion <= 3 && swizzle >= 1 && swizzle <= 3;
  if (!known || reinterpret_cast<uintptr_t>(to) % 64 != 0) return cuda::error_invalid_value;
  TensorMap map{};
  map.address = reinterpret_cast<uintptr_t>(address);
  map.rank = static_cast<int32_t>(rank), map.swizzle = 16 << swizzle;
  map.element_bytes = of_bytes ? 1 : of_words ? 4 : 2, map.rounds_to_tf32 = of_tf32;
  bool fits = map.address % 16 == 0;
  for (unsigned i = 0; i < rank; ++i) {
    fits =
        fits && sizes[i] >= 1 && sizes[i] <= kMost && box[i] >= 1 && box[i] <= 256 && steps[i] == 1;
    map.sizes[i] = sizes[i], map.box[i] = static_cast<int32_t>(box[i]);
    if (i + 1 == rank) continue;
    fits = fits && strides[i] % 16 == 0 && strides[i] < kMostStride;
    map.strides[i] = static_cast<int64_t>(strides[i]);
  }
  const int64_t line = map.box[0] * map.element_bytes;
  if (!fits || line > map.swizzle || line % 16 != 0) return cuda::error_invalid_value;
  std::memcpy(to, &map, sizeof map);
  return cuda::success;
}

}  // namespace ligerdsl::test::ptx
