// Data types and widths that the tests of a family walk through, within the backend's budget.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/backend.h"
#include "tests/support/gates.h"
#include "tests/support/random.h"

namespace ligerdsl::test {

inline const std::vector<DType> kFloats{f32, f16, bf16};

// Those of `widths` that `rows` rows of can be processed.
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

// Poisoned elements behind every row in the n-th case: 0, 8 (vectors stay aligned) and 3 (they do not), in turn.
inline int64_t gap_of(int64_t n) {
  return std::vector<int64_t>{0, 8, 3}[n % 3];
}

inline Tensor random_rows(DType type, int64_t n, int64_t cols, uint64_t seed, int64_t gap = 0, double scale = 1.0) {
  return Tensor::rows(type, n, cols, gap).fill(Random(seed).normals(n * cols, scale));
}

inline Tensor random_vector(DType type, int64_t n, uint64_t seed, double scale = 1.0, double mean = 0.0) {
  return Tensor(type, {n}).fill(Random(seed).normals(n, scale, mean));
}

// Where there are kernels for aligned arguments, `work` launches no others.
template <class Work>
void expect_aligned(const Work& work) {
  backend().took_generic();
  work();
  EXPECT_EQ(backend().took_generic(), std::vector<std::string>());
}

// For kernels whose programs work on one block of rows after the other while the next one is on its way: calls
// check(type, rows, width, gap) with a few blocks for each program. Every argument suits a GPU's kernel for aligned
// ones, also where rows of 6140 elements of 16 bits end inside a vector. The widest rows are too much for the registers
// of one CTA.
template <class Check>
void for_rows_in_turn(const Check& check) {
  for (auto [width, gap] : {std::pair<int64_t, int64_t>{4096, 0}, {6140, 4}, {8192, 8}, {20488, 8}}) {
    const int64_t rows = std::min<int64_t>(23, (backend().budget() / width - 1) | 1);
    for (DType type : kFloats) expect_aligned([&] { check(type, rows, width, gap); });
  }
}

// Rows of more than one CTA's shared memory, which clusters take one after the other: calls check(type, rows, width,
// gap).
template <class Check>
void for_rows_shared_by_ctas(const Check& check) {
  for (auto [type, width, rows] : {std::tuple(f32, 53248, 2), {bf16, 131072, 1}, {f32, 60000, 2}, {f32, 40004, 3}}) {
    if (rows * width > backend().budget()) continue;
    for (int64_t gap : {0, 8}) check(type, rows, width, gap);
  }
}

// Numbers of rows that no vector of statistics divides, over rows that are whole vectors: calls check(type, rows,
// width), also with more rows than one program has.
template <class Check>
void for_any_number_of_rows(const Check& check) {
  for (auto [rows, width] : {std::pair<int64_t, int64_t>{5, 64}, {133, 64}, {7, 1024}, {3, 40960}}) {
    if (rows * width > backend().budget()) continue;
    for (DType type : kFloats) expect_aligned([&] { check(type, rows, width); });
  }
}

}  // namespace ligerdsl::test
