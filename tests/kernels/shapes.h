// Data types and widths for the tests of a kernel family, within the backend's budget.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/backend.h"
#include "tests/support/combinations.h"
#include "tests/support/gates.h"
#include "tests/support/random.h"

namespace ligerdsl::test {

inline const std::vector<DType> kFloats{f32, f16, bf16};

// Returns the `widths` at which the backend can process `rows` rows.
inline std::vector<int64_t> affordable(const std::vector<int64_t>& widths, int64_t rows) {
  std::vector<int64_t> out;
  for (int64_t width : widths) {
    if (width * rows <= backend().budget()) out.push_back(width);
  }
  return out;
}

inline kernels::Machine machine() {
  return backend().machine();
}

// Returns the number of poisoned elements after every row in case n: 0, 8 (vectors stay aligned) or
// 3 (they do not).
inline int64_t gap_of(int64_t n) {
  return std::vector<int64_t>{0, 8, 3}[n % 3];
}

inline Tensor random_rows(DType type, int64_t n, int64_t cols, uint64_t seed, int64_t gap = 0,
                          double scale = 1.0) {
  return Tensor::rows(type, n, cols, gap).fill(Random(seed).normals(n * cols, scale));
}

inline Tensor random_vector(DType type, int64_t n, uint64_t seed, double scale = 1.0,
                            double mean = 0.0) {
  return Tensor(type, {n}).fill(Random(seed).normals(n, scale, mean));
}

// Runs `work`. If the backend has aligned variants, expects that `work` launches no generic one.
template <class Work>
void expect_aligned(const Work& work) {
  backend().took_generic();
  work();
  EXPECT_EQ(backend().took_generic(), std::vector<std::string>());
}

// Rows whose length is not a multiple of a 16-byte vector, except 4100 elements of f32.
struct RaggedRows {
  DType type;
  int64_t rows, width;
  int64_t gap = 0;                          // poisoned elements after each row
  int64_t shift = 0, shift_of_results = 0;  // elements from an aligned address to the first row
};
// Calls check(RaggedRows) for contiguous rows, rows with a gap, and rows at unaligned addresses.
template <class Check>
void for_ragged_rows(const Check& check) {
  for (int64_t width : affordable({1031, 2047, 4097, 4100, 8979, 20483}, 3)) {
    const int64_t rows = std::min<int64_t>(19, backend().budget() / width);
    for (DType type : {f32, bf16}) check(RaggedRows{type, rows, width});
  }
  for (int64_t width : affordable({1957, 4100, 4941}, 3)) {
    for (int64_t gap : {0, 1, 3})
      for (auto [shift, shift_of_results] : {std::pair<int64_t, int64_t>{1, 1}, {3, 2}, {0, 5}})
        check(RaggedRows{gap == 1 ? f16 : bf16, 3, width, gap, shift, shift_of_results});
  }
}

// Calls check(type, rows, width, gap) for kernels whose programs process several blocks of rows and
// load the next block ahead. Each program has a few blocks. All arguments are aligned, even rows of
// 6140 16-bit elements, which end inside a vector. The widest rows do not fit in the registers of
// one CTA.
template <class Check>
void for_rows_in_turn(const Check& check) {
  for (auto [width, gap] :
       {std::pair<int64_t, int64_t>{4096, 0}, {6140, 4}, {8192, 8}, {20488, 8}}) {
    const int64_t rows = std::min<int64_t>(23, (backend().budget() / width - 1) | 1);
    for (DType type : kFloats) expect_aligned([&] { check(type, rows, width, gap); });
  }
}

// Calls check(type, rows, width, gap) with rows that exceed the shared memory of one CTA. Clusters
// process them one after the other.
template <class Check>
void for_rows_shared_by_ctas(const Check& check) {
  for (auto [type, width, rows] :
       {std::tuple(f32, 53248, 2), {bf16, 131072, 1}, {f32, 60000, 2}, {f32, 40004, 3}}) {
    if (rows * width > backend().budget()) continue;
    for (int64_t gap : {0, 8}) check(type, rows, width, gap);
  }
}

// Calls check(type, rows, width) with row counts that are not a multiple of a vector of statistics,
// and with more rows than one program has. Each row is a multiple of the vector size.
template <class Check>
void for_any_number_of_rows(const Check& check) {
  for (auto [rows, width] :
       {std::pair<int64_t, int64_t>{5, 64}, {133, 64}, {7, 1024}, {3, 40960}}) {
    if (rows * width > backend().budget()) continue;
    for (DType type : kFloats) expect_aligned([&] { check(type, rows, width); });
  }
}

}  // namespace ligerdsl::test
