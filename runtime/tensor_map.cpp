#include "runtime/tensor_map.h"

namespace ligerdsl::runtime {
namespace {

constexpr int64_t kVector = 16;               // bytes
constexpr int64_t kMostElements = 1LL << 30;  // along a dimension: coordinates have 32 bits
constexpr int64_t kMostStride = 1LL << 40;    // bytes, exclusive

int64_t row_bytes(const program::TensorMap& map, const MappedView& view) {
  return view.row_stride * size_of(map.type);
}

}  // namespace

const char* why_not_mapped(const program::TensorMap& map, const uint64_t* slots) {
  const MappedView view(slots + map.slot);
  if (view.rows < 1 || view.cols < 1) return "it has no elements";
  if (view.rows > kMostElements || view.cols > kMostElements) return "it has more than 2^30 rows or columns";
  if (view.address % kVector != 0) return "its address is no multiple of 16 bytes";
  if (view.row_stride > kMostStride / size_of(map.type) - 1 || view.row_stride < view.cols)
    return "its rows overlap, or are 2^40 bytes or more apart";
  if (row_bytes(map, view) % kVector != 0) return "its rows are no multiple of 16 bytes apart";
  return nullptr;
}

cuda::Result encode_map(const cuda::Api& api, const program::TensorMap& map, const uint64_t* slots,
                        cuda::TensorMap* to) {
  const MappedView view(slots + map.slot);
  const uint64_t sizes[] = {static_cast<uint64_t>(view.cols), static_cast<uint64_t>(view.rows)};
  const uint64_t strides[] = {static_cast<uint64_t>(row_bytes(map, view))};
  const unsigned box[] = {static_cast<unsigned>(map.box[1]), static_cast<unsigned>(map.box[0])}, each[] = {1, 1};
  const int swizzle = map.swizzle == 128  ? cuda::map_swizzle_128
                      : map.swizzle == 64 ? cuda::map_swizzle_64
                                          : cuda::map_swizzle_32;
  return api.encode_map(to, map.type == DType::f16 ? cuda::map_float16 : cuda::map_bfloat16, 2,
                        reinterpret_cast<void*>(view.address), sizes, strides, box, each, cuda::map_no_interleave,
                        swizzle, cuda::map_promote_256_bytes, cuda::map_outside_is_zero);
}

}  // namespace ligerdsl::runtime
