// Matrix products of whole matrices, as a device's own library makes them: CBLAS on a CPU, cuBLASLt on a GPU. Both are
// found by dlopen when first asked for; the library is built, and runs everything else, without them.
//
// All matrices are row-major with a stride between rows; sums are f32.
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

// Any number of threads may multiply at the same time.
class Matmul {
 public:
  virtual ~Matmul() = default;

  // c = product(a, b) + beta c; with beta = 0, c is not read. `workspace`: workspace_bytes(), aligned to 256 bytes, of
  // this stream alone. Queued on `stream` on a GPU, finished on return on a CPU. Throws NOT_SUPPORTED for types and
  // sizes that the implementation does not have, INTERNAL_ERROR for shapes that do not fit one another.
  void multiply(Product product, const Matrix& a, const Matrix& b, float beta, const Matrix& c, void* workspace,
                Stream stream);

  virtual size_t workspace_bytes() const = 0;

  // Chooses how such a product is made, so that multiply() need not; may take host memory. Of `data` only the alignment
  // counts.
  virtual void prepare(Product, const Matrix& /*a*/, const Matrix& /*b*/, const Matrix& /*c*/) {}

 protected:
  // c [m, n]; k > 0 terms in each sum.
  struct Sizes {
    int64_t m, n, k;
  };
  virtual void run(Product product, const Sizes& sizes, const Matrix& a, const Matrix& b, float beta, const Matrix& c,
                   void* workspace, Stream stream) = 0;
};

// CBLAS of f32 matrices from the shared library at `path`; empty: LIGERDSL_LIBCBLAS, else the first that is there of
// OpenBLAS, the system's CBLAS and BLIS. Throws NOT_SUPPORTED with what was tried and what to install.
std::shared_ptr<Matmul> make_cpu_matmul(const std::string& path = "");

// Which library that is: "/usr/lib/.../libopenblas.so.0, OpenBLAS 0.3.21, kernels for Zen". Throws the same.
std::string describe_cblas(const std::string& path = "");

// What cuBLASLt's products are given: the vendor recommends it for Hopper.
inline constexpr size_t kCublasLtWorkspaceBytes = size_t{32} << 20;

// cuBLASLt: a and b f32, f16 or bf16 alike, c of their type or f32. `path` empty: LIGERDSL_LIBCUBLASLT, else
// libcublasLt.so.13 or .12. A product of a kind and size that was not prepared asks cuBLASLt for its choice of kernel
// the first time, which takes host memory; later ones do not.
std::shared_ptr<Matmul> make_cuda_matmul(std::shared_ptr<const PrimaryContext> context, const std::string& path = "");

// Its path and version; needs no GPU. Throws NOT_SUPPORTED with what was tried and what to install.
std::string describe_cublaslt(const std::string& path = "");

}  // namespace ligerdsl::runtime
