// Tensor maps of a launch: what program::TensorMap says of a view, and the launch's address, sizes and strides.
#pragma once

#include <string>

#include "program/artifact.h"
#include "runtime/driver.h"

namespace ligerdsl::runtime {

// A view of two dimensions at its launch slots: its address, then sizes and strides in elements.
struct MappedView {
  explicit MappedView(const uint64_t* slots)
      : address(slots[0]),
        rows(static_cast<int64_t>(slots[1])),
        cols(static_cast<int64_t>(slots[2])),
        row_stride(rows == 1 ? whole_vectors(cols) : static_cast<int64_t>(slots[3])) {}

  uint64_t address;
  int64_t rows, cols, row_stride;

 private:
  // What no one steps along may be any number, often 0, but that of a map.
  static int64_t whole_vectors(int64_t cols) { return (cols + 15) / 16 * 16; }
};

// Why there can be no map of a view, by its launch slots; null where there can. The driver's rules, and rows that share no
// memory.
const char* why_not_mapped(const program::TensorMap& map, const uint64_t* slots);

// Asks the driver for it; takes no memory. There can be one.
cuda::Result encode_map(const cuda::Api& api, const program::TensorMap& map, const uint64_t* slots,
                        cuda::TensorMap* to);

}  // namespace ligerdsl::runtime
