// Products by libligerdsl's own kernels; those of a batch, which are attention's, by the device's library.
#include <utility>

#include "matmul.h"

namespace train {
namespace {

Tensor tensor(const Matrix& x, int64_t rows, int64_t cols) {
  if (x.transposed) std::swap(rows, cols);  // as it lies in memory
  return Tensor(x.data, x.type, {rows, cols}).strided({rows, cols}, {x.ld, 1}, 0);
}

class KernelMatmul : public Matmul {
 public:
  KernelMatmul(Ops& ops, std::unique_ptr<Matmul> library) : ops_(ops), library_(std::move(library)) {}

  void multiply(int64_t m, int64_t n, int64_t k, float alpha, const Matrix& a, const Matrix& b, float beta,
                const Matrix& c) override {
    ops_.matmul(tensor(c, m, n), {tensor(a, m, k), a.transposed}, {tensor(b, k, n), b.transposed}, alpha, beta);
  }

  void multiply_batch(int64_t outer, int64_t inner, int64_t m, int64_t n, int64_t k, float alpha, const Matrix& a,
                      const Matrix& b, float beta, const Matrix& c) override {
    library_->multiply_batch(outer, inner, m, n, k, alpha, a, b, beta, c);
  }

  int64_t device_bytes_used() const override { return library_->device_bytes_used(); }

 private:
  Ops& ops_;
  std::unique_ptr<Matmul> library_;
};

}  // namespace

std::unique_ptr<Matmul> make_kernel_matmul(Ops& ops, std::unique_ptr<Matmul> library) {
  return std::make_unique<KernelMatmul>(ops, std::move(library));
}

}  // namespace train
