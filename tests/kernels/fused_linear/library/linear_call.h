// Helpers for calls to operations with matmuls through the C ABI. The matmuls may come from another
// library (cuBLASLt or CBLAS), so a test needs a context. The test's backend selects the device of
// the context.
#pragma once

#include <gtest/gtest.h>
#include <ligerdsl/ligerdsl.h>

#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/support/backend.h"
#include "tests/support/tensor.h"

namespace ligerdsl::test {

inline bool on_gpu() {
  return backend().name() == "cuda";
}

// Returns true if the backend has matmuls; the interpreter has none.
inline bool has_products() {
  return on_gpu() || backend().name() == "cpu";
}

// Provider of an lm_head's matmuls: cuBLASLt or a CBLAS library, or libligerdsl's own kernels.
enum class Products { library, kernels };
inline Products& maker_of_products() {
  static Products chosen = Products::library;
  return chosen;
}
inline int32_t products() {
  return maker_of_products() == Products::library ? LIGERDSL_PRODUCTS_LIBRARY
                                                  : LIGERDSL_PRODUCTS_KERNELS;
}

// Returns true on the fake GPU of tests/support/emulated_cuda, which interprets PTX.
inline bool on_emulator() {
  const char* const driver = std::getenv("LIGERDSL_LIBCUDA");
  return on_gpu() && driver && std::string(driver).find("emulated_cuda") != std::string::npos;
}
// Skips a test on the emulator in which libligerdsl's own matmul kernels would run for minutes.
// Smaller problems of the suite launch the same kernels.
#define LIGERDSL_SKIP_LONG_EMULATION()                           \
  if (on_emulator() && maker_of_products() == Products::kernels) \
  GTEST_SKIP() << "the emulator takes too long"
// Skips a test of labels out of range, because a trap in a kernel ends the emulator's process.
#define LIGERDSL_SKIP_TRAPS_OF_EMULATOR() \
  if (on_emulator()) GTEST_SKIP() << "the emulator does not continue after a trap"

// Runs each test of an lm_head with each provider of matmuls.
class WithProducts : public testing::TestWithParam<Products> {
 protected:
  void SetUp() override {
    if (!has_products()) GTEST_SKIP() << "this backend has no matmuls";
    maker_of_products() = GetParam();
  }
};
inline std::string products_name(const testing::TestParamInfo<Products>& info) {
  return info.param == Products::library ? "library" : "kernels";
}
inline auto makers_of_products() {
  return testing::Values(Products::library, Products::kernels);
}

inline void require(ligerdsl_status_t status) {
  if (status != LIGERDSL_SUCCESS)
    throw std::runtime_error(std::string(ligerdsl_status_name(status)) + ": " +
                             ligerdsl_last_error());
}

inline int32_t code_of(DType type) {
  static const std::map<DType, int32_t> codes = {{f32, LIGERDSL_F32},
                                                 {f16, LIGERDSL_F16},
                                                 {bf16, LIGERDSL_BF16},
                                                 {i32, LIGERDSL_I32},
                                                 {i64, LIGERDSL_I64}};
  return codes.at(type);
}

inline ligerdsl_context_t context() {
  static ligerdsl_context_t made = [] {
    ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
    if (on_gpu()) config.device = {LIGERDSL_CUDA, 0};
    ligerdsl_context_t context = nullptr;
    require(ligerdsl_context_create(&config, &context));
    return context;
  }();
  return made;
}

// Passes host tensors to one call. On a GPU, copies them to device memory and back.
class Transfer {
 public:
  ~Transfer() {
    for (auto& [storage, memory] : copies_) (void)!ligerdsl_buffer_free(context(), memory);
  }
  const ligerdsl_tensor_t* operator()(const Tensor& tensor) {
    Entry& entry = entries_.emplace_back();
    entry.shape = tensor.shape();
    entry.strides = tensor.strides();
    entry.raw = {data(tensor),
                 {on_gpu() ? LIGERDSL_CUDA : LIGERDSL_CPU, 0},
                 static_cast<int32_t>(entry.shape.size()),
                 ligerdsl_dtype_of(code_of(tensor.type())),
                 entry.shape.data(),
                 entry.strides.data(),
                 0};
    return &entry.raw;
  }
  void* memory(size_t bytes) {
    scratch_ = std::make_shared<Storage>(static_cast<int64_t>(bytes) + 256);
    if (!on_gpu()) {
      const auto address = reinterpret_cast<uintptr_t>(scratch_->begin());
      return reinterpret_cast<void*>((address + 255) / 256 * 256);
    }
    return mirror(*scratch_);
  }
  void back() {
    for (auto& [storage, memory] : copies_)
      require(ligerdsl_buffer_copy(context(), storage->begin(), memory, storage->size(), nullptr));
    require(ligerdsl_stream_sync(context(), nullptr));
  }

 private:
  struct Entry {
    Sizes shape, strides;
    ligerdsl_tensor_t raw;
  };
  void* mirror(Storage& host) {
    void*& memory = copies_[&host];
    if (!memory) {
      require(ligerdsl_buffer_alloc(context(), host.size(), &memory));
      require(ligerdsl_buffer_copy(context(), memory, host.begin(), host.size(), nullptr));
    }
    return memory;
  }
  void* data(const Tensor& tensor) {
    if (!on_gpu()) return tensor.data();
    return static_cast<uint8_t*>(mirror(*tensor.storage())) + tensor.byte_offset();
  }

  std::list<Entry> entries_;
  std::map<Storage*, void*> copies_;
  std::shared_ptr<Storage> scratch_;
};

// Returns x w^T in float64, where x is [n, h] and w is [v, h].
inline Values product_logits(const Tensor& x, const Tensor& w, int64_t n, int64_t h, int64_t v) {
  const Values xs = x.values(), ws = w.values();
  Values z(n * v);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < v; ++j) {
      for (int64_t k = 0; k < h; ++k) z[i * v + j] += xs[i * h + k] * ws[j * h + k];
    }
  }
  return z;
}

// Gradients of x and w, from d, the gradient of x w^T.
struct ProductGradients {
  Values x, w;
};
inline ProductGradients product_gradients(const Values& d, const Tensor& x, const Tensor& w,
                                          int64_t n, int64_t h, int64_t v) {
  const Values xs = x.values(), ws = w.values();
  ProductGradients out{Values(n * h), Values(v * h)};
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < v; ++j) {
      for (int64_t k = 0; k < h; ++k) {
        out.x[i * h + k] += d[i * v + j] * ws[j * h + k];
        out.w[j * h + k] += d[i * v + j] * xs[i * h + k];
      }
    }
  }
  return out;
}

}  // namespace ligerdsl::test
