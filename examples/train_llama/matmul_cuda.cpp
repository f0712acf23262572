// Matmuls by cuBLAS. It is loaded at run time, so that the trainer builds and runs without CUDA.
#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "matmul.h"

namespace train {
namespace {

// Constants copied from the CUDA headers.
constexpr int kCudaR32F = 0, kCudaR16BF = 14, kComputeF32 = 68, kDefaultAlgorithm = -1,
              kNoTranspose = 0, kTranspose = 1;

void* load(std::initializer_list<const char*> names, const char* advice) {
  std::string tried;
  for (const char* name : names) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
    tried += std::string("\n  ") + dlerror();
  }
  throw std::runtime_error(std::string("cannot load ") + *names.begin() + "; " + advice + tried);
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) throw std::runtime_error(std::string("the CUDA library has no function ") + name);
}

void expect_zero(int status, const char* what) {
  if (status)
    throw std::runtime_error(std::string(what) + " failed with status " + std::to_string(status));
}

// Makes the device's primary context current on this thread. libligerdsl's kernels use the same
// context.
void use_primary_context(void* driver, int index) {
  int (*init)(unsigned), (*get)(int*, int), (*retain)(void**, int), (*set_current)(void*);
  find(driver, "cuInit", init);
  find(driver, "cuDeviceGet", get);
  find(driver, "cuDevicePrimaryCtxRetain", retain);
  find(driver, "cuCtxSetCurrent", set_current);
  int device = 0;
  void* context = nullptr;
  expect_zero(init(0), "cuInit");
  expect_zero(get(&device, index), "cuDeviceGet");
  expect_zero(retain(&context, device), "cuDevicePrimaryCtxRetain");
  expect_zero(set_current(context), "cuCtxSetCurrent");
}

int cuda_type(const Matrix& m) {
  return m.type == Type::bf16 ? kCudaR16BF : kCudaR32F;
}
int operation(const Matrix& m) {
  return m.transposed ? kTranspose : kNoTranspose;
}

class CudaMatmul : public Matmul {
 public:
  CudaMatmul(int device, void* stream) {
    void* driver = load({"libcuda.so.1"}, "install the NVIDIA driver, which contains it:");
    use_primary_context(driver, device);
    find(driver, "cuMemGetInfo_v2", memory_info_);
    void* cublas = load({"libcublas.so.13", "libcublas.so.12", "libcublas.so"},
                        "install cuBLAS, or add its folder to LD_LIBRARY_PATH:");
    int (*create)(void**), (*set_stream)(void*, void*);
    find(cublas, "cublasCreate_v2", create);
    find(cublas, "cublasSetStream_v2", set_stream);
    find(cublas, "cublasDestroy_v2", destroy_);
    find(cublas, "cublasGemmStridedBatchedEx", gemm_);
    expect_zero(create(&handle_), "cublasCreate");
    expect_zero(set_stream(handle_, stream), "cublasSetStream");
  }
  ~CudaMatmul() override { destroy_(handle_); }

  void multiply(int64_t m, int64_t n, int64_t k, float alpha, const Matrix& a, const Matrix& b,
                float beta, const Matrix& c) override {
    gemm(m, n, k, alpha, a, b, beta, c, 1);
  }

  void multiply_batch(int64_t outer, int64_t inner, int64_t m, int64_t n, int64_t k, float alpha,
                      const Matrix& a, const Matrix& b, float beta, const Matrix& c) override {
    // cuBLAS accepts one batch dimension. It gets the longer of the two; a loop covers the shorter
    // one.
    auto swapped = [](Matrix x) {
      std::swap(x.outer, x.inner);
      return x;
    };
    if (outer > inner)
      return multiply_batch(inner, outer, m, n, k, alpha, swapped(a), swapped(b), beta, swapped(c));
    for (int64_t o = 0; o < outer; ++o)
      gemm(m, n, k, alpha, a.at(o, 0), b.at(o, 0), beta, c.at(o, 0), inner);
  }

  int64_t device_bytes_used() const override {
    size_t free = 0, total = 0;
    expect_zero(memory_info_(&free, &total), "cuMemGetInfo");
    return static_cast<int64_t>(total - free);
  }

 private:
  // cuBLAS is column-major, so the call computes c^T = op(b)^T op(a)^T.
  void gemm(int64_t m, int64_t n, int64_t k, float alpha, const Matrix& a, const Matrix& b,
            float beta, const Matrix& c, int64_t count) {
    expect_zero(gemm_(handle_, operation(b), operation(a), n, m, k, &alpha, b.data, cuda_type(b),
                      b.ld, b.inner, a.data, cuda_type(a), a.ld, a.inner, &beta, c.data,
                      cuda_type(c), c.ld, c.inner, count, kComputeF32, kDefaultAlgorithm),
                "cublasGemmStridedBatchedEx");
  }

  void* handle_ = nullptr;
  int (*destroy_)(void*) = nullptr;
  int (*memory_info_)(size_t*, size_t*) = nullptr;
  int (*gemm_)(void*, int, int, int, int, int, const void*, const void*, int, int, long long,
               const void*, int, int, long long, const void*, void*, int, int, long long, int, int,
               int) = nullptr;
};

}  // namespace

std::unique_ptr<Matmul> make_cuda_matmul(int device, void* stream) {
  return std::make_unique<CudaMatmul>(device, stream);
}

}  // namespace train
