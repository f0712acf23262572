#include "runtime/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "runtime/driver.h"
#include "runtime/status.h"

namespace ligerdsl::runtime {
namespace {

// Row-major f32 with a gap behind every row.
struct Floats {
  Floats(int64_t rows, int64_t cols, int64_t gap, float seed) : matrix{nullptr, f32, rows, cols, cols + gap} {
    for (int64_t i = 0; i < rows * (cols + gap); ++i) data.push_back(std::sin(seed + 0.7f * static_cast<float>(i)));
    matrix.data = data.data();
  }
  float at(int64_t i, int64_t j) const { return data[i * matrix.stride + j]; }

  std::vector<float> data;
  Matrix matrix;
};

void expect_failure(Status status, const char* word, const std::function<void()>& body) {
  try {
    body();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST(Matmul, ProductsOfStridedMatrices) {
  const auto matmul = make_cpu_matmul();
  const int64_t m = 5, n = 7, k = 11;
  for (Product product : {Product::nt, Product::nn, Product::tn}) {
    for (float beta : {0.0f, 1.0f}) {
      const bool ta = product == Product::tn, tb = product == Product::nt;
      Floats a(ta ? k : m, ta ? m : k, 3, 0.1f), b(tb ? n : k, tb ? k : n, 2, 0.2f), c(m, n, 1, 0.3f);
      Floats before = c;
      if (beta == 0) {
        for (int64_t i = 0; i < m; ++i) std::fill_n(&c.data[i * c.matrix.stride], n, NAN);  // not read
      }
      c.matrix.data = c.data.data();
      matmul->multiply(product, a.matrix, b.matrix, beta, c.matrix, nullptr, nullptr);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = beta * before.at(i, j);
          for (int64_t l = 0; l < k; ++l) sum += (ta ? a.at(l, i) : a.at(i, l)) * (tb ? b.at(j, l) : b.at(l, j));
          EXPECT_NEAR(c.at(i, j), sum, 1e-5) << i << ", " << j;
        }
        EXPECT_EQ(c.at(i, n), before.at(i, n)) << "written behind a row";
      }
    }
  }
}

TEST(Matmul, WhatItDoesNotTake) {
  const auto matmul = make_cpu_matmul();
  Floats a(2, 3, 0, 0), b(4, 3, 0, 0), c(2, 4, 0, 0);
  const auto multiply = [&](const Matrix& x, const Matrix& y, const Matrix& z) {
    matmul->multiply(Product::nt, x, y, 0, z, nullptr, nullptr);
  };
  Matrix half = a.matrix, narrow = b.matrix, tight = a.matrix;
  half.type = f16;
  narrow.cols = 2;
  tight.stride = 1;
  expect_failure(Status::not_supported, "f16", [&] { multiply(half, b.matrix, c.matrix); });
  expect_failure(Status::internal_error, "[4, 2]", [&] { multiply(a.matrix, narrow, c.matrix); });
  expect_failure(Status::internal_error, "stride 1", [&] { multiply(tight, b.matrix, c.matrix); });
  Matrix none = c.matrix, nothing = a.matrix;
  none.rows = nothing.rows = 0;
  multiply(nothing, b.matrix, none);
}

TEST(Matmul, MissingLibrariesAreNamed) {
  expect_failure(Status::not_supported, "LIGERDSL_LIBCBLAS", [] { make_cpu_matmul("/nowhere/libcblas.so"); });
  expect_failure(Status::not_supported, "/nowhere/libcblas.so", [] { make_cpu_matmul("/nowhere/libcblas.so"); });
  expect_failure(Status::not_supported, "cblas_sgemm", [] { make_cpu_matmul(FAKE_CUDA); });
  const auto context = std::make_shared<const PrimaryContext>(Driver::open(FAKE_CUDA), 0);
  expect_failure(Status::not_supported, "LIGERDSL_LIBCUBLASLT",
                 [&] { make_cuda_matmul(context, "/nowhere/libcublasLt.so"); });
  expect_failure(Status::not_supported, "cublasLtCreate", [&] { make_cuda_matmul(context, FAKE_CUDA); });
}

}  // namespace
}  // namespace ligerdsl::runtime
