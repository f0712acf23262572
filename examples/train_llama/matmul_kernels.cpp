// Products by libligerdsl's own kernels: no library of the device's maker. A batch is a call for each of its matrices.
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
  explicit KernelMatmul(Ops& ops) : ops_(ops) {}

  void multiply(int64_t m, int64_t n, int64_t k, float alpha, const Matrix& a, const Matrix& b, float beta,
                const Matrix& c) override {
    ops_.matmul(tensor(c, m, n), {tensor(a, m, k), a.transposed}, {tensor(b, k, n), b.transposed}, alpha, beta);
  }

  void multiply_batch(int64_t outer, int64_t inner, int64_t m, int64_t n, int64_t k, float alpha, const Matrix& a,
                      const Matrix& b, float beta, const Matrix& c) override {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) multiply(m, n, k, alpha, a.at(o, i), b.at(o, i), beta, c.at(o, i));
  }

 private:
  Ops& ops_;
};

}  // namespace

std::unique_ptr<Matmul> make_kernel_matmul(Ops& ops) {
  return std::make_unique<KernelMatmul>(ops);
}

}  // namespace train
