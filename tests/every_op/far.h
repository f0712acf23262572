// Fills and compares tensors of more than 2^32 elements, without host memory of this size.
//
// A large tensor consists of copies of rows of a small one. It has up to three regions: rows before
// element 2^31, rows up to element 2^32, and the rest. Each region repeats other rows, so an index
// that loses its upper bits reads other values. The driver copies the rows to addresses that the
// host computes in 64 bits. A kernel compares the results for both tensors, in launches of 2^30
// elements.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ligerdsl/dtype.h"
#include "tests/every_op/session.h"

namespace ligerdsl::test {

// Maps the rows of a large tensor to rows of a small one. Each region repeats `period` rows of the
// small tensor.
class Regions {
 public:
  // `limits` are the first rows of the second and later regions. They and `rows` are rounded up to
  // multiples of `period`.
  Regions(int64_t period, const std::vector<int64_t>& limits, int64_t rows);

  struct Region {
    int64_t first, rows;  // rows of the large tensor
    int64_t small_first;  // row of the small tensor
  };
  const std::vector<Region>& all() const { return all_; }
  int64_t period() const { return period_; }
  int64_t rows() const { return all_.back().first + all_.back().rows; }
  int64_t small_rows() const { return period_ * static_cast<int64_t>(all_.size()); }
  int64_t small_row(int64_t row) const;

 private:
  int64_t period_;
  std::vector<Region> all_;
};

// Fills the large tensor with copies of rows of the small one. A row has `row_bytes` bytes.
void spread(ligerdsl_context_t context, const Regions& regions, size_t row_bytes,
            const std::byte* small, std::byte* large);

struct Tolerance {
  double relative = 0, absolute = 0;  // allowed: relative * |expected| + absolute
};

// Counts, on the device, the elements of a large tensor that differ from the small tensor's.
class Comparison {
 public:
  Comparison(ligerdsl_context_t context, DType type);
  ~Comparison() { ligerdsl_kernel_destroy(kernel_); }
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  // Returns "" if the tensors agree. Otherwise returns the number of differences and the first
  // block with one.
  std::string differences(const Regions& regions, int64_t row_elements, const std::byte* small,
                          const std::byte* large, const Tolerance& tolerance) const;

 private:
  struct Found {
    int64_t wrong = 0,
            first = -1;  // number of wrong elements; first element of the first wrong block
  };
  void compare(int64_t periods, int64_t elements, const std::byte* small, const std::byte* large,
               const Tolerance& tolerance, int64_t at, Found* found) const;

  ligerdsl_context_t context_;
  DType type_;
  ligerdsl_kernel_t kernel_ = nullptr;
};

int32_t code_of(DType type);  // LIGERDSL_F32 ...

}  // namespace ligerdsl::test
