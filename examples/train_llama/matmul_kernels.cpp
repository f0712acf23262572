// Matmuls by libligerdsl's kernels.
#include <utility>

#include "matmul.h"

namespace train {
namespace {

Tensor tensor(const Matrix& x, int64_t rows, int64_t cols) {
  if (x.transposed) std::swap(rows, cols);  // Matrix describes op(x); memory holds x
  return Tensor(x.data, x.type, {rows, cols}).strided({rows, cols}, {x.ld, 1}, 0);
}

// Returns a tensor [matrices, rows, cols] that describes the inner batch dimension.
Tensor batch(const Matrix& x, int64_t matrices, int64_t rows, int64_t cols) {
  if (x.transposed) std::swap(rows, cols);
  return Tensor(x.data, x.type, {matrices, rows, cols})
      .strided({matrices, rows, cols}, {x.inner, x.ld, 1}, 0);
}

class KernelMatmul : public Matmul {
 public:
  KernelMatmul(Ops& ops, std::unique_ptr<Matmul> library)
      : ops_(ops), library_(std::move(library)) {}

  void multiply(int64_t m, int64_t n, int64_t k, float alpha, const Matrix& a, const Matrix& b,
                float beta, const Matrix& c) override {
    ops_.matmul(tensor(c, m, n), {tensor(a, m, k), a.transposed}, {tensor(b, k, n), b.transposed},
                alpha, beta);
  }

  void multiply_batch(int64_t outer, int64_t inner, int64_t m, int64_t n, int64_t k, float alpha,
                      const Matrix& a, const Matrix& b, float beta, const Matrix& c) override {
    for (int64_t o = 0; o < outer; ++o)
      ops_.batched_matmul(batch(c.at(o, 0), inner, m, n),
                          {batch(a.at(o, 0), inner, m, k), a.transposed},
                          {batch(b.at(o, 0), inner, k, n), b.transposed}, alpha, beta);
  }

  bool swiglu(const Tensor& out, const Tensor& gate_up, const Tensor& x,
              const Tensor& weight) override {
    ops_.gated_matmul(out, gate_up, x, weight);
    return true;
  }

  int64_t device_bytes_used() const override { return library_->device_bytes_used(); }

 private:
  Ops& ops_;
  std::unique_ptr<Matmul> library_;  // reports the memory in use
};

}  // namespace

std::unique_ptr<Matmul> make_kernel_matmul(Ops& ops, std::unique_ptr<Matmul> library) {
  return std::make_unique<KernelMatmul>(ops, std::move(library));
}

}  // namespace train
