// Matmul of whole matrices by a device's library: CBLAS on a CPU, cuBLASLt on a GPU. The first use
// loads the library by dlopen. Neither builds nor other functions need these libraries.
//
// All matrices are row-major, with a row stride. Accumulation is in f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ligerdsl/dtype.h"
#include "runtime/kernel/kernel.h"

namespace ligerdsl::runtime {

class PrimaryContext;

struct Matrix {
  void* data;
  DType type;
  int64_t rows, cols;
  int64_t stride;  // elements from one row to the next, at least cols
};

enum class Product : uint8_t {
  nt,  // a b^T
  nn,  // a b
  tn,  // a^T b
};

// Any number of threads may call multiply() at the same time.
class Matmul {
 public:
  virtual ~Matmul() = default;

  // Computes c = product(a, b) + beta c. With beta = 0, c is not read. `workspace` has
  // workspace_bytes(), is aligned to 256 bytes, and belongs to this stream alone. On a GPU the work
  // is queued on `stream`. On a CPU it is finished when multiply() returns. Throws NOT_SUPPORTED
  // for types and sizes that the library does not support, and INTERNAL_ERROR for wrong shapes.
  void multiply(Product product, const Matrix& a, const Matrix& b, float beta, const Matrix& c,
                void* workspace, Stream stream);

  virtual size_t workspace_bytes() const = 0;

  // Chooses the algorithm for later calls of multiply() with these types, sizes and strides. May
  // allocate host memory. Does not access `data`; only its alignment matters.
  virtual void prepare(Product, const Matrix& /*a*/, const Matrix& /*b*/, const Matrix& /*c*/) {}

 protected:
  // c is [m, n]. Each element of c is a sum of k > 0 terms.
  struct Sizes {
    int64_t m, n, k;
  };
  virtual void run(Product product, const Sizes& sizes, const Matrix& a, const Matrix& b,
                   float beta, const Matrix& c, void* workspace, Stream stream) = 0;
};

// Returns CBLAS for f32 matrices from the shared library at `path`. An empty `path` means
// LIGERDSL_LIBCBLAS, else the first of OpenBLAS, the system's CBLAS and BLIS that loads. Throws
// NOT_SUPPORTED with the libraries that were tried and what to install.
std::shared_ptr<Matmul> make_cpu_matmul(const std::string& path = "");

// Returns the CBLAS library's file and version: "/usr/lib/.../libopenblas.so.0, OpenBLAS 0.3.21,
// kernels for Zen". Throws the same errors.
std::string describe_cblas(const std::string& path = "");

// Workspace of cuBLASLt in bytes: NVIDIA's recommendation for Hopper.
inline constexpr size_t kCublasLtWorkspaceBytes = size_t{32} << 20;

// Returns cuBLASLt. Operands a and b both have type f32, f16 or bf16; c has their type or f32. An
// empty `path` means LIGERDSL_LIBCUBLASLT, else libcublasLt.so.13 or .12. prepare() or the first
// matmul of a kind and size requests a kernel from cuBLASLt, which allocates host memory. Later
// matmuls allocate nothing while their kernel is among the last 64 that were chosen.
std::shared_ptr<Matmul> make_cuda_matmul(std::shared_ptr<const PrimaryContext> context,
                                         const std::string& path = "");

// Returns cuBLASLt's path and version; needs no GPU. Throws NOT_SUPPORTED with the libraries that
// were tried and what to install.
std::string describe_cublaslt(const std::string& path = "");

}  // namespace ligerdsl::runtime
