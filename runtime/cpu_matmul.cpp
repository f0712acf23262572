// CBLAS, with as many threads as it chooses: its settings belong to the process, not to this library.
#include <climits>

#include "runtime/matmul.h"
#include "runtime/options.h"
#include "runtime/shared_library.h"
#include "runtime/status.h"

namespace ligerdsl::runtime {
namespace {

constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;
using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a,
                       int stride_a, const float* b, int stride_b, float beta, float* c, int stride_c);

struct Cblas {
  void* library;
  Sgemm sgemm;
};

Cblas find_cblas(const std::string& path) {
  const std::string& named = path.empty() ? options().libcblas : path;
  std::string tried;
  void* library = named.empty() ? open_library({"libopenblas.so.0", "libcblas.so.3", "libblis.so.4"}, &tried)
                                : open_library({named}, &tried);
  if (library) {
    if (auto sgemm = reinterpret_cast<Sgemm>(find_symbol(library, "cblas_sgemm"))) return {library, sgemm};
    tried = "the library that was found has no function cblas_sgemm";
  }
  fail(Status::not_supported,
       "matrix products on a CPU need a CBLAS library: " + tried +
           "; install OpenBLAS (Debian and Ubuntu: libopenblas0), or set LIGERDSL_LIBCBLAS to the path of a library "
           "with cblas_sgemm");
}

class CpuMatmul final : public Matmul {
 public:
  explicit CpuMatmul(const std::string& path) : sgemm_(find_cblas(path).sgemm) {}

  size_t workspace_bytes() const override { return 0; }

 protected:
  void run(Product product, const Sizes& sizes, const Matrix& a, const Matrix& b, float beta, const Matrix& c, void*,
           Stream) override {
    for (const Matrix* m : {&a, &b, &c}) {
      if (m->type != f32)
        fail(Status::not_supported, std::string("CBLAS products are f32, got a matrix of ") + name(m->type));
    }
    for (int64_t size : {sizes.m, sizes.n, sizes.k, a.stride, b.stride, c.stride}) {
      if (size > INT_MAX)
        fail(Status::not_supported,
             "CBLAS takes sizes and strides of at most 2147483647 elements, got " + std::to_string(size));
    }
    sgemm_(kRowMajor, product == Product::tn ? kTranspose : kNoTranspose,
           product == Product::nt ? kTranspose : kNoTranspose, static_cast<int>(sizes.m), static_cast<int>(sizes.n),
           static_cast<int>(sizes.k), 1.0f, static_cast<const float*>(a.data), static_cast<int>(a.stride),
           static_cast<const float*>(b.data), static_cast<int>(b.stride), beta, static_cast<float*>(c.data),
           static_cast<int>(c.stride));
  }

 private:
  Sgemm sgemm_;
};

}  // namespace

std::string describe_cblas(const std::string& path) {
  const Cblas cblas = find_cblas(path);
  std::string text = file_of(reinterpret_cast<const void*>(cblas.sgemm));
  using Text = const char* (*)();
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": the first two words.
  if (auto config = reinterpret_cast<Text>(find_symbol(cblas.library, "openblas_get_config"))) {
    const std::string words = config();
    text += ", " + words.substr(0, words.find(' ', words.find(' ') + 1));
  }
  if (auto core = reinterpret_cast<Text>(find_symbol(cblas.library, "openblas_get_corename")))
    text += std::string(", kernels for ") + core() + " (OPENBLAS_CORETYPE)";
  return text;
}

std::shared_ptr<Matmul> make_cpu_matmul(const std::string& path) {
  return std::make_shared<CpuMatmul>(path);
}

}  // namespace ligerdsl::runtime
