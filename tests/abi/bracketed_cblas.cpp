// CBLAS wrapper: a matmul calls product_begins, the system's CBLAS and then product_ends.
// allocation_test.cpp attributes allocations between the two calls to the CBLAS library.
#include <dlfcn.h>

#include <cstdlib>

// Functions of the test program, called before and after every matmul.
extern "C" __attribute__((visibility("default"))) void product_begins();
extern "C" __attribute__((visibility("default"))) void product_ends();

namespace {

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                       float, float*, int);

Sgemm find_sgemm() {
  constexpr const char* kNames[] = {"libopenblas.so.0", "libcblas.so.3", "libblis.so.4"};
  for (const char* name : kNames) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    void* const found = library ? dlsym(library, "cblas_sgemm") : nullptr;
    if (found) return reinterpret_cast<Sgemm>(found);
  }
  abort();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void cblas_sgemm(
    int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a,
    int stride_a, const float* b, int stride_b, float beta, float* c, int stride_c) {
  static const Sgemm sgemm = find_sgemm();
  product_begins();
  sgemm(order, transpose_a, transpose_b, m, n, k, alpha, a, stride_a, b, stride_b, beta, c,
        stride_c);
  product_ends();
}
