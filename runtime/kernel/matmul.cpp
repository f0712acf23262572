#include "runtime/kernel/matmul.h"

#include "runtime/system/status.h"

namespace ligerdsl::runtime {
namespace {

std::string text(const Matrix& m) {
  return std::string(name(m.type)) + " [" + std::to_string(m.rows) + ", " + std::to_string(m.cols) +
         "] with stride " + std::to_string(m.stride);
}

}  // namespace

void Matmul::multiply(Product product, const Matrix& a, const Matrix& b, float beta,
                      const Matrix& c, void* workspace, Stream stream) {
  const bool a_transposed = product == Product::tn, b_transposed = product == Product::nt;
  const Sizes sizes{.m = c.rows, .n = c.cols, .k = a_transposed ? a.rows : a.cols};
  const bool fits = (a_transposed ? a.cols : a.rows) == sizes.m &&
                    (b_transposed ? b.rows : b.cols) == sizes.n &&
                    (b_transposed ? b.cols : b.rows) == sizes.k && sizes.k > 0;
  const bool strided = a.stride >= a.cols && b.stride >= b.cols && c.stride >= c.cols;
  if (!fits || !strided) {
    fail(Status::internal_error, "a matmul of " + text(a) + " and " + text(b) + " into " + text(c) +
                                     ": the sizes do not fit one another");
  }
  if (sizes.m == 0 || sizes.n == 0) return;
  run(product, sizes, a, b, beta, c, workspace, stream);
}

}  // namespace ligerdsl::runtime
