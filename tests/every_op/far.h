// Tensors of more elements than 32 bits count, without host memory and without the kernels under test.
//
// A large tensor is made of rows of a small one. Rows before element 2^31, those from there to element 2^32, and those
// behind it (the regions) repeat different rows, so that an index that loses its upper bits meets other values. The
// driver copies them, to addresses that the host computes in 64 bits. What an operation made of a large tensor is
// compared with what it made of the small one by a kernel that sees 2^30 elements at a time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ligerdsl/dtype.h"
#include "tests/every_op/session.h"

namespace ligerdsl::test {

// How the rows of a large tensor stand for those of a small one, which has `period` rows for each region.
class Regions {
 public:
  // `rows` and every limit between regions are rounded up to whole periods.
  Regions(int64_t period, const std::vector<int64_t>& limits, int64_t rows);

  struct Region {
    int64_t first, rows;  // of the large tensor
    int64_t small_first;  // of the small one
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

// Fills the large tensor with the small one's rows of `row_bytes` bytes.
void spread(ligerdsl_context_t context, const Regions& regions, size_t row_bytes, const std::byte* small,
            std::byte* large);

struct Tolerance {
  double relative = 0, absolute = 0;  // of the expected value; of 1
};

// Counts, on the device, elements of a large tensor that are not the small one's.
class Comparison {
 public:
  Comparison(ligerdsl_context_t context, DType type);
  ~Comparison() { ligerdsl_kernel_destroy(kernel_); }
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  // Empty: they agree. Else how many do not, and where the first block with one is.
  std::string differences(const Regions& regions, int64_t row_elements, const std::byte* small, const std::byte* large,
                          const Tolerance& tolerance) const;

 private:
  struct Found {
    int64_t wrong = 0, first = -1;  // elements; the first wrong block's first element
  };
  void compare(int64_t periods, int64_t elements, const std::byte* small, const std::byte* large,
               const Tolerance& tolerance, int64_t at, Found* found) const;

  ligerdsl_context_t context_;
  DType type_;
  ligerdsl_kernel_t kernel_ = nullptr;
};

int32_t code_of(DType type);  // LIGERDSL_F32 ...

}  // namespace ligerdsl::test
