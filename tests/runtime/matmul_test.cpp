#include "runtime/kernel/matmul.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <span>
#include <vector>

#include "runtime/cuda/cublaslt_choice.h"
#include "runtime/cuda/driver.h"
#include "runtime/system/status.h"
#include "support.h"

namespace ligerdsl::runtime {
namespace {

// A row-major f32 matrix with `gap` unused elements after each row.
struct Floats {
  Floats(int64_t rows, int64_t cols, int64_t gap, float seed)
      : matrix{nullptr, f32, rows, cols, cols + gap} {
    for (int64_t i = 0; i < rows * (cols + gap); ++i)
      data.push_back(std::sin(seed + 0.7f * static_cast<float>(i)));
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

std::shared_ptr<const PrimaryContext> fake_context() {
  return std::make_shared<const PrimaryContext>(Driver::open(FAKE_CUDA), 0);
}

template <class Function>
Function of_fake_cublaslt(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen(FAKE_CUBLASLT, RTLD_NOW), name));
}

// Tests all three transpositions, with beta = 0 and beta = 1. The matrices have gaps after their
// rows.
void check_products(Matmul& matmul, int64_t m = 5, int64_t n = 7, int64_t k = 11) {
  for (Product product : {Product::nt, Product::nn, Product::tn}) {
    for (float beta : {0.0f, 1.0f}) {
      const bool ta = product == Product::tn, tb = product == Product::nt;
      Floats a(ta ? k : m, ta ? m : k, 3, 0.1f), b(tb ? n : k, tb ? k : n, 2, 0.2f),
          c(m, n, 1, 0.3f);
      const Floats before = c;
      if (beta == 0) {
        for (int64_t i = 0; i < m; ++i)
          std::fill_n(&c.data[i * c.matrix.stride], n, NAN);  // not read
      }
      c.matrix.data = c.data.data();
      matmul.multiply(product, a.matrix, b.matrix, beta, c.matrix, nullptr, nullptr);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = beta * before.at(i, j);
          for (int64_t l = 0; l < k; ++l)
            sum += (ta ? a.at(l, i) : a.at(i, l)) * (tb ? b.at(j, l) : b.at(l, j));
          EXPECT_NEAR(c.at(i, j), sum, 1e-6 * static_cast<double>(k)) << i << ", " << j;
        }
        EXPECT_EQ(c.at(i, n), before.at(i, n)) << "written after a row";
      }
    }
  }
}

TEST(Matmul, MultipliesStridedMatrices) {
  check_products(*make_cpu_matmul());
  check_products(*make_cpu_matmul(), 65, 130, 97);  // large enough for several threads
}

TEST(CudaMatmul, MultipliesRowMajorThroughColumnMajorLibrary) {
  check_products(*make_cuda_matmul(fake_context(), FAKE_CUBLASLT));
}

TEST(CudaMatmul, CachesTheChoiceOfKernel) {
  const auto matmul = make_cuda_matmul(fake_context(), FAKE_CUBLASLT);
  const auto choices = of_fake_cublaslt<int (*)()>("fake_cublaslt_choices");
  Floats a(4, 3, 1, 0), b(8, 3, 1, 0), c(4, 8, 0, 0);
  const auto multiply = [&] {
    const int before = choices();
    matmul->multiply(Product::nt, a.matrix, b.matrix, 0, c.matrix, nullptr, nullptr);
    return choices() - before;
  };
  EXPECT_EQ(multiply(), 1);
  EXPECT_EQ(multiply(), 0);
  a.matrix.rows = c.matrix.rows = 3;
  EXPECT_EQ(multiply(), 1) << "another size";
  for (int64_t rows = 1; rows <= 4; ++rows) {  // more sizes than the cache holds
    for (int64_t cols = 1; cols <= 40; ++cols) {
      Floats x(rows, 2, 0, 0), y(cols, 2, 0, 0), z(rows, cols, 0, 0);
      matmul->multiply(Product::nt, x.matrix, y.matrix, 0, z.matrix, nullptr, nullptr);
      EXPECT_NEAR(z.at(rows - 1, cols - 1),
                  x.at(rows - 1, 0) * y.at(cols - 1, 0) + x.at(rows - 1, 1) * y.at(cols - 1, 1),
                  1e-6);
    }
  }
  EXPECT_EQ(multiply(), 1) << "forgotten meanwhile";
}

TEST(CudaMatmul, PassesAlignmentsToTheLibrary) {
  const auto matmul = make_cuda_matmul(fake_context(), FAKE_CUBLASLT);
  const auto alignments = of_fake_cublaslt<const uint32_t* (*)()>("fake_cublaslt_alignments")();
  alignas(256) static float memory[3][64];
  const auto at = [&](int which, int offset) {
    return Matrix{&memory[which][offset], f32, 2, 2, 4};
  };
  matmul->multiply(Product::nn, at(0, 4), at(1, 1), 0, at(2, 2), nullptr, nullptr);
  EXPECT_EQ(alignments[0], 4u) << "operand B comes first";
  EXPECT_EQ(alignments[1], 16u);
  EXPECT_EQ(alignments[2], 8u);
  EXPECT_EQ(alignments[3], 8u);
  matmul->multiply(Product::nn, at(0, 0), at(1, 0), 0, at(2, 0), nullptr, nullptr);
  EXPECT_EQ(alignments[0], 256u);
}

// The table of tiles has no f32 entries, so the matmul takes the fake's first permitted proposal
// (id 248).
TEST(CudaMatmul, TakesTheFirstUsableProposal) {
  const auto matmul = make_cuda_matmul(fake_context(), FAKE_CUBLASLT);
  Floats a(4, 3, 1, 0), b(8, 3, 1, 0), c(4, 8, 0, 0);
  matmul->multiply(Product::nt, a.matrix, b.matrix, 0, c.matrix, nullptr, nullptr);
  EXPECT_EQ(of_fake_cublaslt<int (*)()>("fake_cublaslt_last_tile")(), 248);
}

// For 16-bit operands, the table names the tile measured as fastest. All operands are zero, because
// the fake reads them as f32.
TEST(CudaMatmul, UsesTheKernelFromTheTable) {
  const auto last_tile = of_fake_cublaslt<int (*)()>("fake_cublaslt_last_tile");
  const auto set_waves = of_fake_cublaslt<void (*)(float)>("fake_cublaslt_set_waves");
  const auto tile = [&](Product product, DType result, float waves) {
    const auto matmul = make_cuda_matmul(fake_context(), FAKE_CUBLASLT);
    Floats a(4, 4, 0, 0), b(4, 4, 0, 0), c(4, 4, 0, 0);
    for (Floats* f : {&a, &b, &c}) std::fill(f->data.begin(), f->data.end(), 0.0f);
    a.matrix.type = b.matrix.type = bf16;
    c.matrix.type = result;
    set_waves(waves);
    matmul->multiply(product, a.matrix, b.matrix, 0, c.matrix, nullptr, nullptr);
    set_waves(1);
    return last_tile();
  };
  EXPECT_EQ(tile(Product::tn, f32, 100), 29);
  EXPECT_EQ(tile(Product::tn, bf16, 100), 24);
  EXPECT_EQ(tile(Product::tn, bf16, 5), 248) << "few waves";
  EXPECT_EQ(tile(Product::nn, bf16, 100), 248) << "no table";
}

TEST(ChooseKernel, FollowsTheOrderOfTheTable) {
  const ProposedKernel all[] = {{248, 97}, {24, 121},  {23, 121}, {209, 111},
                                {29, 194}, {201, 176}, {197, 185}};
  EXPECT_EQ(choose_kernel("sm_90a", Product::nt, bf16, bf16, all), 5u);
  EXPECT_EQ(choose_kernel("sm_90a", Product::nt, f16, f16, std::span(all).first(5)), 2u);
  EXPECT_EQ(choose_kernel("sm_90a", Product::tn, bf16, f32, all), 4u);
  EXPECT_EQ(choose_kernel("sm_90a", Product::tn, bf16, bf16, all), 1u);
  EXPECT_EQ(choose_kernel("sm_90a", Product::nn, bf16, bf16, all), 0u);
  EXPECT_EQ(choose_kernel("sm_90a", Product::nt, f32, f32, all), 0u);
  EXPECT_EQ(choose_kernel("sm_100", Product::nt, bf16, bf16, all), 0u);
  EXPECT_EQ(choose_kernel("sm_90a", Product::nt, bf16, bf16, std::span(all).first(1)), 0u)
      << "no proposal is in the table";
}

TEST(CudaMatmul, RejectsUnsupportedOperands) {
  const auto matmul = make_cuda_matmul(fake_context(), FAKE_CUBLASLT);
  Floats a(2, 13, 0, 0), b(13, 13, 0, 0), c(2, 13, 0, 0);
  expect_failure(Status::not_supported, "with m = 2, n = 13, k = 13", [&] {
    matmul->multiply(Product::nn, a.matrix, b.matrix, 0, c.matrix, nullptr, nullptr);
  });
  Matrix half = a.matrix;
  half.type = f16;
  expect_failure(Status::not_supported, "A is f16, B is f32", [&] {
    matmul->multiply(Product::nn, half, b.matrix, 0, c.matrix, nullptr, nullptr);
  });
}

TEST(Matmul, RejectsUnsupportedOperands) {
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

size_t address_space_in_use() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// The next test runs this in new processes, which have not loaded a CBLAS library yet.
TEST(Matmul, DISABLED_UnderALimit) {
  alarm(60);  // without the check, OpenBLAS retries its allocation forever
  const rlim_t most = static_cast<rlim_t>(std::atoi(getenv("TEST_MEGABYTES"))) << 20;
  const rlimit limit{most, most};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  try {
    const auto matmul = make_cpu_matmul();
    Floats a(64, 64, 0, 0), b(64, 64, 0, 0), c(64, 64, 0, 0);
    matmul->multiply(Product::nt, a.matrix, b.matrix, 0, c.matrix, nullptr, nullptr);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("ulimit -v"), std::string::npos) << error.what();
  }
}

TEST(Matmul, AddressSpaceLimitIsAnErrorWithoutAHang) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers take address space of their own";
  for (int megabytes = 64; megabytes <= 512; megabytes += 32) {
    EXPECT_TRUE(test::passes_with("Matmul.DISABLED_UnderALimit",
                                  {"TEST_MEGABYTES=" + std::to_string(megabytes)}))
        << megabytes << " MiB";
  }
}

TEST(Matmul, DISABLED_WithoutABuffer) {
  alarm(60);
  const auto matmul = make_cpu_matmul();
  Floats a(64, 64, 0, 0), b(64, 64, 0, 0), c(64, 64, 0, 0);
  const auto multiply = [&] {
    matmul->multiply(Product::nt, a.matrix, b.matrix, 0, c.matrix, nullptr, nullptr);
  };
  const rlim_t most = address_space_in_use() + (rlim_t{64} << 20);
  const rlimit limit{most, RLIM_INFINITY}, none{RLIM_INFINITY, RLIM_INFINITY};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  expect_failure(Status::out_of_host_memory, "ulimit -v", multiply);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  multiply();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  multiply();  // reuses the buffer of the earlier call
}

TEST(Matmul, FailedBufferAllocationIsAnError) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers take address space of their own";
  // OpenBLAS's other threads map their buffers after they have started. With the limit of this test
  // they would try forever.
  EXPECT_TRUE(test::passes_with("Matmul.DISABLED_WithoutABuffer", {"OPENBLAS_NUM_THREADS=1"}));
}

TEST(Matmul, DISABLED_WithoutThreads) {
  alarm(60);
  const rlimit limit{0, 0};
  ASSERT_EQ(setrlimit(RLIMIT_NPROC, &limit), 0);
  if (getuid() == 0) {
    ASSERT_EQ(setuid(65534), 0);  // root may start any number of threads, other users none
  }
  expect_failure(Status::not_supported, "ulimit -u", [] { make_cpu_matmul(); });
}

// Without a check in the library, OpenBLAS ends the process by SIGINT if it cannot start a thread.
TEST(Matmul, FailedThreadStartIsAnError) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers start threads of their own";
  EXPECT_TRUE(test::passes_with("Matmul.DISABLED_WithoutThreads", {"OPENBLAS_NUM_THREADS=4"}));
}

TEST(Matmul, ErrorNamesMissingLibraries) {
  expect_failure(Status::not_supported, "LIGERDSL_LIBCBLAS",
                 [] { make_cpu_matmul("/nowhere/libcblas.so"); });
  expect_failure(Status::not_supported, "/nowhere/libcblas.so",
                 [] { make_cpu_matmul("/nowhere/libcblas.so"); });
  expect_failure(Status::not_supported, "cblas_sgemm", [] { make_cpu_matmul(FAKE_CUDA); });
  const auto context = fake_context();
  expect_failure(Status::not_supported, "LIGERDSL_LIBCUBLASLT",
                 [&] { make_cuda_matmul(context, "/nowhere/libcublasLt.so"); });
  expect_failure(Status::not_supported, "cublasLtCreate",
                 [&] { make_cuda_matmul(context, FAKE_CUDA); });
}

TEST(Matmul, DescribesItsLibraries) {
  EXPECT_EQ(describe_cublaslt(FAKE_CUBLASLT).find(FAKE_CUBLASLT), 0u)
      << describe_cublaslt(FAKE_CUBLASLT);
  expect_failure(Status::not_supported, "/nowhere.so", [] { describe_cublaslt("/nowhere.so"); });
  expect_failure(Status::not_supported, "/nowhere.so", [] { describe_cblas("/nowhere.so"); });
  expect_failure(Status::not_supported, "cblas_sgemm", [] { describe_cblas("libm.so.6"); });
}

}  // namespace
}  // namespace ligerdsl::runtime
