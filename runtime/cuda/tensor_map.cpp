#include "runtime/cuda/tensor_map.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

namespace ligerdsl::runtime {
namespace {

constexpr int64_t kVector = 16;               // bytes
constexpr int64_t kMostElements = 1LL << 30;  // per dimension, because coordinates have 32 bits
constexpr int64_t kMostStride = 1LL << 40;    // bytes, exclusive

std::string hex(uint64_t address) {
  char text[16];
  return "0x" + std::string(text, std::to_chars(std::begin(text), std::end(text), address, 16).ptr);
}

}  // namespace

std::string reason_not_mapped(const program::TensorMap& map, const uint64_t* slots) {
  const MappedView view(map, slots);
  for (size_t dim = 0; dim < view.rank; ++dim) {
    if (view.size(dim) < 1) return "it has no elements";
    if (view.size(dim) > kMostElements)
      return "dimension " + std::to_string(dim) + " has " + std::to_string(view.size(dim)) +
             " elements, more than 2^30";
  }
  if (view.address() % kVector != 0)
    return "its address " + hex(view.address()) + " is not a multiple of 16 bytes";
  for (size_t dim = 0; dim + 1 < view.rank; ++dim) {
    const int64_t stride = view.stride(dim);
    const auto text = [&] {
      return "the stride of dimension " + std::to_string(dim) + " is " + std::to_string(stride) +
             " elements";
    };
    if (stride < view.cols())
      return text() + ", less than its " + std::to_string(view.cols()) + " columns";
    if (stride > kMostStride / size_of(map.type) - 1) return text() + ", 2^40 bytes or more";
    if (stride * size_of(map.type) % kVector != 0)
      return text() + " (" + std::to_string(stride * size_of(map.type)) +
             " bytes), not a multiple of 16 bytes";
  }
  if (map.sliced >= 0 && view.stride(map.sliced) >= program::TensorMap::kSliceStep)
    return "the row stride of its slices is " + std::to_string(view.stride(map.sliced)) +
           " elements, 2^34 or more";
  return "";
}

// The driver expects the dimensions in reverse order, the contiguous one first.
cuda::Result encode_map(const cuda::Api& api, const program::TensorMap& map, const uint64_t* slots,
                        cuda::TensorMap* to) {
  constexpr size_t kMost = program::TensorMap::kMostDims;
  const MappedView view(map, slots);
  uint64_t sizes[kMost],
      strides[kMost];  // sizes in elements; strides in bytes, without the first dimension's
  unsigned box[kMost], each[kMost];
  const auto bytes = [&](int64_t stride) {
    return static_cast<uint64_t>(stride * size_of(map.type));
  };
  for (size_t i = 0; i < view.rank; ++i) {
    const size_t dim = view.rank - 1 - i;
    sizes[i] = static_cast<uint64_t>(view.size(dim));
    if (i > 0) strides[i - 1] = bytes(view.stride(dim));
    box[i] = static_cast<unsigned>(map.box[dim]);
  }
  if (map.sliced >= 0) {
    constexpr uint64_t kAll = std::numeric_limits<int32_t>::max();
    const int64_t row = view.stride(map.sliced);
    sizes[view.rank - 1 - map.sliced] = program::TensorMap::kSliceRows;
    sizes[view.rank] = sizes[view.rank + 1] = kAll;
    strides[view.rank - 1] = bytes(row),
                        strides[view.rank] = bytes(program::TensorMap::kSliceStep - row);
    box[view.rank] = box[view.rank + 1] = 1;
  }
  std::fill(std::begin(each), std::end(each), 1);
  const int swizzle = map.swizzle == 128  ? cuda::map_swizzle_128
                      : map.swizzle == 64 ? cuda::map_swizzle_64
                                          : cuda::map_swizzle_32;
  const int type = map.type == DType::f16    ? cuda::map_float16
                   : map.type == DType::bf16 ? cuda::map_bfloat16
                   : map.type == DType::f32  ? (map.stores ? cuda::map_float32 : cuda::map_tfloat32)
                                             : cuda::map_uint8;
  return api.encode_map(to, type, static_cast<unsigned>(map.dims()),
                        reinterpret_cast<void*>(view.address()), sizes, strides, box, each,
                        cuda::map_no_interleave, swizzle, cuda::map_promote_256_bytes,
                        cuda::map_outside_is_zero);
}

}  // namespace ligerdsl::runtime
