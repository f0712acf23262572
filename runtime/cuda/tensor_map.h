// Tensor maps of a launch. program::TensorMap describes a map; the launch adds address, sizes and
// strides.
#pragma once

#include <string>

#include "program/artifact.h"
#include "runtime/cuda/driver.h"

namespace ligerdsl::runtime {

// A view in its launch slots: address, then sizes and strides in elements. cols() is the size of
// the last dimension.
class MappedView {
 public:
  MappedView(const program::TensorMap& map, const uint64_t* slots)
      : rank(map.box.size()), slots_(slots + map.slot) {}

  const size_t rank;
  uint64_t address() const { return slots_[0]; }
  int64_t size(size_t dim) const { return static_cast<int64_t>(slots_[1 + dim]); }
  int64_t cols() const { return size(rank - 1); }
  // A dimension of size 1 may have any stride, often 0. The map then gets a valid one.
  int64_t stride(size_t dim) const {
    return size(dim) == 1 ? (cols() + 15) / 16 * 16 : static_cast<int64_t>(slots_[1 + rank + dim]);
  }

 private:
  const uint64_t* slots_;
};

// Returns why a view cannot have a tensor map, or "" if it can. Checks the driver's rules, and that
// the rows share no memory.
std::string reason_not_mapped(const program::TensorMap& map, const uint64_t* slots);

// Encodes the map with the driver, without allocating memory. reason_not_mapped() must return "".
cuda::Result encode_map(const cuda::Api& api, const program::TensorMap& map, const uint64_t* slots,
                        cuda::TensorMap* to);

}  // namespace ligerdsl::runtime
