#include "runtime/kernel/matmul.h"

#include "runtime/system/status.h"

namespace ligerdsl::runtime {
namespace {

std::string text(const Matrix& m) {
  return std::string(name(m.type)) + " [" + std::to_string(m.rows) + ", " + std::to_string(m.cols) +
         "] with row stride " + std::to_string(m.stride);
}

const char* name(Product product) {
  constexpr const char* names[] = {"nt", "nn", "tn"};
  return names[static_cast<int>(product)];
}

}  // namespace

void Matmul::multiply(Product product, const Matrix& a, const Matrix& b, float beta,
                      const Matrix& c, void* workspace, Stream stream) {
  const bool a_transposed = product == Product::tn, b_transposed = product == Product::nt;
  const Sizes sizes{.m = c.rows, .n = c.cols, .k = a_transposed ? a.rows : a.cols};
  const bool fits = (a_transposed ? a.cols : a.rows) == sizes.m &&
                    (b_transposed ? b.rows : b.cols) == sizes.n &&
                    (b_transposed ? b.cols : b.rows) == sizes.k;
  const bool strided = a.stride >= a.cols && b.stride >= b.cols && c.stride >= c.cols;
  const char* why = !fits          ? "the sizes do not match"
                    : sizes.k <= 0 ? "k is 0"
                    : !strided     ? "a row stride is smaller than the row"
                                   : nullptr;
  if (why != nullptr) {
    fail(Status::internal_error, std::string("a matmul ") + name(product) + " of " + text(a) +
                                     " and " + text(b) + " into " + text(c) + ": " + why);
  }
  if (sizes.m == 0 || sizes.n == 0) return;
  run(product, sizes, a, b, beta, c, workspace, stream);
}

}  // namespace ligerdsl::runtime
