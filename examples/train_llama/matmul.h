// Matmuls: CBLAS in f32 on a CPU, cuBLAS in bf16 on a GPU, or libligerdsl's kernels on both.
#pragma once

#include <memory>

#include "ops.h"

namespace train {

// One matrix, or the first matrix of a batch. `data` is row-major; row i begins at element i * ld.
struct Matrix {
  void* data;
  Type type;
  int64_t ld;
  bool transposed = false;
  int64_t outer = 0,
          inner = 0;  // strides in elements between matrices, in the two dimensions of a batch

  Matrix at(int64_t o, int64_t i) const {
    Matrix m = *this;
    m.data = static_cast<std::byte*>(data) + (o * outer + i * inner) * size_of(type);
    return m;
  }
};

// Returns the matrix of the last two dimensions of a tensor.
inline Matrix matrix(const Tensor& t, bool transposed = false) {
  return {t.data, t.type, t.stride[t.rank - 2], transposed};
}

class Matmul {
 public:
  virtual ~Matmul() = default;
  // c[m,n] = alpha op(a)[m,k] op(b)[k,n] + beta c, with f32 accumulation. c may be f32 if a and b
  // are bf16.
  virtual void multiply(int64_t m, int64_t n, int64_t k, float alpha, const Matrix& a,
                        const Matrix& b, float beta, const Matrix& c) = 0;
  // Multiplies outer x inner pairs of matrices.
  virtual void multiply_batch(int64_t outer, int64_t inner, int64_t m, int64_t n, int64_t k,
                              float alpha, const Matrix& a, const Matrix& b, float beta,
                              const Matrix& c) = 0;
  // Computes gate_up = x weight^T and out = SiLU(gate) up in one kernel. Returns false and does
  // nothing if this class has no such kernel.
  virtual bool swiglu(const Tensor& /*out*/, const Tensor& /*gate_up*/, const Tensor& /*x*/,
                      const Tensor& /*weight*/) {
    return false;
  }
  // Returns the GPU memory in use by all processes, or 0 on a CPU.
  virtual int64_t device_bytes_used() const { return 0; }
};

// threads: number of matmul threads; 0 = all cores.
std::unique_ptr<Matmul> make_cpu_matmul(int threads);
// Loads cuBLAS; throws if it or the driver is missing. stream: a CUstream.
std::unique_ptr<Matmul> make_cuda_matmul(int device, void* stream);

// Returns libligerdsl's matmuls. `library` is used only to report the memory in use.
std::unique_ptr<Matmul> make_kernel_matmul(Ops& ops, std::unique_ptr<Matmul> library);

// Implementation of matmuls: CBLAS or cuBLAS (`library`), or libligerdsl (`kernels`).
enum class Products { library, kernels };
// Returns the matmuls for the device of `ops`.
std::unique_ptr<Matmul> make_matmul(Ops& ops, Products products, int threads);

}  // namespace train
