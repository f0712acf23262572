#include "kernels/core/workspace.h"

namespace ligerdsl::kernels {
namespace {

constexpr int64_t kVector = 16, kLine = 128;  // bytes

// Returns the stride, in elements, between rows of `size` elements.
int64_t row_pitch(DType type, int64_t size) {
  return round_up(size, (size * size_of(type) < kLine ? kVector : kLine) / size_of(type));
}

// Overload for a size that may depend on the call. If it does, rows are padded to cache lines.
Size row_pitch(DType type, const Size& size) {
  if (size.nodes().size() == 1 && size.nodes()[0].kind == Size::Kind::number)
    return row_pitch(type, size.number());
  const int64_t unit = kLine / size_of(type);
  return ceil_div(size, unit) * unit;
}

}  // namespace

void workspace_strides(DType type, std::span<const int64_t> sizes, int64_t* strides) {
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride = i + 1 == sizes.size() && i > 0 ? row_pitch(type, sizes[i]) : stride * sizes[i];
  }
}

Size workspace_bytes(const Scratch& buffer) {
  const std::vector<Size>& shape = buffer.room.empty() ? buffer.shape : buffer.room;
  Size bytes = size_of(buffer.dtype);
  for (size_t i = 0; i < shape.size(); ++i)
    bytes = bytes * (i + 1 == shape.size() && i > 0 ? row_pitch(buffer.dtype, shape[i]) : shape[i]);
  return bytes;
}

}  // namespace ligerdsl::kernels
