// Tensor maps of a launch: what program::TensorMap says of a view, and the launch's address, sizes and strides.
#pragma once

#include <string>

#include "program/artifact.h"
#include "runtime/cuda/driver.h"

namespace ligerdsl::runtime {

// A view at its launch slots: its address, then sizes and strides in elements. Its last dimension has columns, the others rows.
class MappedView {
 public:
  MappedView(const program::TensorMap& map, const uint64_t* slots) : rank(map.box.size()), slots_(slots + map.slot) {}

  const size_t rank;
  uint64_t address() const { return slots_[0]; }
  int64_t size(size_t dim) const { return static_cast<int64_t>(slots_[1 + dim]); }
  int64_t cols() const { return size(rank - 1); }
  // What no one steps along may be any number, often 0, but that of a map.
  int64_t stride(size_t dim) const {
    return size(dim) == 1 ? (cols() + 15) / 16 * 16 : static_cast<int64_t>(slots_[1 + rank + dim]);
  }

 private:
  const uint64_t* slots_;
};

// Why there can be no map of a view, by its launch slots; null where there can. The driver's rules, and rows that share no
// memory.
const char* why_not_mapped(const program::TensorMap& map, const uint64_t* slots);

// Asks the driver for it; takes no memory. There can be one.
cuda::Result encode_map(const cuda::Api& api, const program::TensorMap& map, const uint64_t* slots,
                        cuda::TensorMap* to);

}  // namespace ligerdsl::runtime
