// What stands for a CUtensorMap here: the tensor and the box of a copy, as the stand-in of the driver writes them and the emulator
// reads them.
#pragma once

#include <cstdint>
#include <cstring>

#include "runtime/cuda_api.h"

namespace ligerdsl::test::ptx {

// Of two dimensions, neighbours in memory first.
struct alignas(64) TensorMap {
  uint64_t address, sizes[2];
  int64_t stride;  // of rows, bytes
  int64_t box[2];
  int64_t element_bytes, swizzle;
  uint64_t unused[8];
};
static_assert(sizeof(TensorMap) == sizeof(runtime::cuda::TensorMap));

// Refuses what a driver does.
inline runtime::cuda::Result encode(runtime::cuda::TensorMap* to, int type, unsigned rank, void* address,
                                    const uint64_t* sizes, const uint64_t* strides, const unsigned* box,
                                    const unsigned* steps, int interleave, int swizzle, int promotion, int outside) {
  namespace cuda = runtime::cuda;
  constexpr uint64_t kMost = uint64_t{1} << 32, kMostStride = uint64_t{1} << 40;
  const bool known = (type == cuda::map_float16 || type == cuda::map_bfloat16) && rank == 2 && interleave == 0 &&
                     outside == 0 && promotion >= 0 && promotion <= 3 && swizzle >= 1 && swizzle <= 3;
  if (!known || reinterpret_cast<uintptr_t>(to) % 64 != 0) return cuda::error_invalid_value;
  TensorMap map{.address = reinterpret_cast<uintptr_t>(address),
                .sizes = {sizes[0], sizes[1]},
                .stride = static_cast<int64_t>(strides[0]),
                .box = {box[0], box[1]},
                .element_bytes = 2,
                .swizzle = 16 << swizzle,
                .unused = {}};
  bool fits = map.address % 16 == 0 && strides[0] % 16 == 0 && strides[0] < kMostStride &&
              map.box[0] * map.element_bytes <= map.swizzle && map.box[0] * map.element_bytes % 16 == 0;
  for (int i = 0; i < 2; ++i)
    fits = fits && sizes[i] >= 1 && sizes[i] <= kMost && box[i] >= 1 && box[i] <= 256 && steps[i] == 1;
  if (!fits) return cuda::error_invalid_value;
  std::memcpy(to, &map, sizeof map);
  return cuda::success;
}

}  // namespace ligerdsl::test::ptx
