// Matmul by cuBLASLt. This file declares the functions that it uses and loads them at run time.
//
// cuBLASLt is column-major. The memory of a row-major matrix [rows, cols] holds its transpose as a
// column-major matrix [cols, rows]. Therefore c = a b is computed as c^T = b^T a^T: the operands
// are swapped, and each keeps its transposition.
#include <algorithm>
#include <array>
#include <mutex>

#include "runtime/cuda/cublaslt_choice.h"
#include "runtime/cuda/driver.h"
#include "runtime/environment/options.h"
#include "runtime/kernel/matmul.h"
#include "runtime/system/shared_library.h"
#include "runtime/system/status.h"

namespace ligerdsl::runtime {
namespace {

constexpr int kCompute32F = 68, kReal32F = 0, kReal16F = 2, kReal16BF = 14;
constexpr int kTransposeA = 3, kTransposeB = 4;  // attributes of a matmul descriptor
constexpr int kPrefWorkspace = 1, kPrefAlignA = 5,
              kPrefAlignD = 8;  // attributes of a preference; 6 and 7 are the alignments of B and C
constexpr int kConfigTile = 1;  // attribute of an algorithm
constexpr int kProposals = 16;
constexpr uint32_t kBestAlignment = 256, kWidestAccess = 16;

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
struct Layout {
  uint64_t data[8];
};
using Opaque = void*;

// X(member, symbol, parameters) for each function in use. Each function returns 0 for success.
#define LIGERDSL_CUBLASLT_FUNCTIONS(X)                                                     \
  X(create, "cublasLtCreate", (Opaque*))                                                   \
  X(destroy, "cublasLtDestroy", (Opaque))                                                  \
  X(desc_create, "cublasLtMatmulDescCreate", (Opaque*, int compute, int scale))            \
  X(desc_destroy, "cublasLtMatmulDescDestroy", (Opaque))                                   \
  X(desc_set, "cublasLtMatmulDescSetAttribute", (Opaque, int, const void*, size_t))        \
  X(layout_init, "cublasLtMatrixLayoutInit_internal",                                      \
    (Layout*, size_t, int, uint64_t rows, uint64_t cols, int64_t))                         \
  X(pref_create, "cublasLtMatmulPreferenceCreate", (Opaque*))                              \
  X(pref_destroy, "cublasLtMatmulPreferenceDestroy", (Opaque))                             \
  X(pref_set, "cublasLtMatmulPreferenceSetAttribute", (Opaque, int, const void*, size_t))  \
  X(choose, "cublasLtMatmulAlgoGetHeuristic",                                              \
    (Opaque, Opaque, Layout*, Layout*, Layout*, Layout*, Opaque, int, Heuristic*, int*))   \
  X(config_get, "cublasLtMatmulAlgoConfigGetAttribute",                                    \
    (const Algorithm*, int, void*, size_t, size_t*))                                       \
  X(matmul, "cublasLtMatmul",                                                              \
    (Opaque, Opaque, const void*, const void*, Layout*, const void*, Layout*, const void*, \
     const void*, Layout*, void*, Layout*, const Algorithm*, void*, size_t, Stream))

struct Api {
#define LIGERDSL_DECLARE(member, symbol, parameters) int(*member) parameters = nullptr;
  LIGERDSL_CUBLASLT_FUNCTIONS(LIGERDSL_DECLARE)
#undef LIGERDSL_DECLARE
};

[[noreturn]] void fail_missing(const std::string& why) {
  fail(Status::not_supported, "matmul on a GPU needs cuBLASLt: " + why +
                                  "; install cuBLAS of CUDA 12 or 13, add its folder to "
                                  "LD_LIBRARY_PATH, or set LIGERDSL_LIBCUBLASLT to the "
                                  "path of libcublasLt.so");
}

void* open_cublaslt(const std::string& path) {
  const std::string& named = path.empty() ? options().libcublaslt : path;
  std::string tried;
  void* library = named.empty() ? open_library({"libcublasLt.so.13", "libcublasLt.so.12"}, &tried)
                                : open_library({named}, &tried);
  if (!library) fail_missing(tried);
  return library;
}

Api load_api(const std::string& path) {
  void* library = open_cublaslt(path);
  Api api;
#define LIGERDSL_FIND(member, symbol, parameters)                                    \
  api.member = reinterpret_cast<decltype(api.member)>(find_symbol(library, symbol)); \
  if (!api.member)                                                                   \
    fail_missing(std::string("the library that was found has no function ") + symbol);
  LIGERDSL_CUBLASLT_FUNCTIONS(LIGERDSL_FIND)
#undef LIGERDSL_FIND
  return api;
}

// Returns the meaning of a cublasStatus_t in parentheses, or "".
const char* meaning(int status) {
  switch (status) {
    case 1:
      return " (not initialized)";
    case 3:
      return " (out of memory)";
    case 7:
      return " (invalid value)";
    case 8:
      return " (architecture mismatch)";
    case 13:
      return " (execution failed)";
    case 14:
      return " (internal error)";
    case 15:
      return " (not supported)";
    default:
      return "";
  }
}

void check(int status, const char* what) {
  if (status == 0) return;
  const Status kind = status == 3    ? Status::out_of_device_memory
                      : status == 15 ? Status::not_supported
                                     : Status::execution_failed;
  fail(kind, std::string("cuBLASLt: ") + what + " failed with status " + std::to_string(status) +
                 meaning(status));
}

int type_code(DType type) {
  switch (type) {
    case f32:
      return kReal32F;
    case f16:
      return kReal16F;
    case bf16:
      return kReal16BF;
    default:
      fail(Status::not_supported,
           std::string("matmul by cuBLASLt: expected f32, f16 or bf16, got ") + name(type));
  }
}

// Returns the alignment of an address in bytes: 256, or at most 16. Values between these do not
// change the choice of kernel, because no access is wider than 16 bytes.
uint32_t alignment(const void* data) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(data);
  if (address % kBestAlignment == 0) return kBestAlignment;
  return static_cast<uint32_t>(std::min<uintptr_t>(address & (~address + 1), kWidestAccess));
}

// Properties of a matmul that determine cuBLASLt's choice of kernel.
struct Key {
  int64_t m, n, k, stride_a, stride_b, stride_c;
  uint32_t align_a, align_b, align_c;
  Product product;
  DType type, result;

  bool operator==(const Key&) const = default;
};

class CudaMatmul final : public Matmul {
 public:
  CudaMatmul(std::shared_ptr<const PrimaryContext> context, const std::string& path)
      : context_(std::move(context)), api_(load_api(path)) {
    const PrimaryContext::RelaxedScope scope(*context_);
    check(api_.create(&handle_), "creating a handle");
    for (Product product : {Product::nt, Product::nn, Product::tn}) describe(product);
  }

  ~CudaMatmul() override {
    try {
      const PrimaryContext::RelaxedScope scope(*context_);
      for (Opaque desc : descriptions_) api_.desc_destroy(desc);
      api_.destroy(handle_);
    } catch (const std::exception&) {  // after the driver's shutdown or in a forked child there is
                                       // nothing to release
    }
  }

  size_t workspace_bytes() const override { return kCublasLtWorkspaceBytes; }

  void prepare(Product product, const Matrix& a, const Matrix& b, const Matrix& c) override {
    const PrimaryContext::Scope scope(*context_);
    Layout first = layout(b), second = layout(a), result = layout(c);
    const Sizes sizes{c.rows, c.cols, product == Product::tn ? a.rows : a.cols};
    choose(key_of(product, sizes, a, b, c), first, second, result);
  }

 protected:
  void run(Product product, const Sizes& sizes, const Matrix& a, const Matrix& b, float beta,
           const Matrix& c, void* workspace, Stream stream) override {
    if (a.type != b.type || (c.type != a.type && c.type != f32)) {
      fail(Status::not_supported,
           std::string("matmul by cuBLASLt: A is ") + name(a.type) + ", B is " + name(b.type) +
               " and the result is " + name(c.type) +
               "; expected A and B of the same type, and a result of this type or f32");
    }
    const PrimaryContext::Scope scope(*context_);
    Layout first = layout(b), second = layout(a), result = layout(c);
    const Algorithm algorithm = choose(key_of(product, sizes, a, b, c), first, second, result);
    const float one = 1.0f;
    check(api_.matmul(handle_, description(product), &one, b.data, &first, a.data, &second, &beta,
                      c.data, &result, c.data, &result, &algorithm, workspace,
                      kCublasLtWorkspaceBytes, stream),
          "a matmul");
  }

 private:
  void describe(Product product) {
    Opaque& desc = descriptions_[static_cast<int>(product)];
    check(api_.desc_create(&desc, kCompute32F, kReal32F), "describing a matmul");
    const int first = product == Product::nt, second = product == Product::tn;
    check(api_.desc_set(desc, kTransposeA, &first, sizeof first), "describing a matmul");
    check(api_.desc_set(desc, kTransposeB, &second, sizeof second), "describing a matmul");
  }
  Opaque description(Product product) const { return descriptions_[static_cast<int>(product)]; }

  static Key key_of(Product product, const Sizes& sizes, const Matrix& a, const Matrix& b,
                    const Matrix& c) {
    return {sizes.m,           sizes.n,           sizes.k,           a.stride, b.stride, c.stride,
            alignment(a.data), alignment(b.data), alignment(c.data), product,  a.type,   c.type};
  }

  Layout layout(const Matrix& m) const {
    Layout out;
    check(api_.layout_init(&out, sizeof out, type_code(m.type), static_cast<uint64_t>(m.cols),
                           static_cast<uint64_t>(m.rows), m.stride),
          "describing a matrix");
    return out;
  }

  Algorithm choose(const Key& key, Layout& first, Layout& second, Layout& result) {
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < std::min(chosen_, kRemembered); ++i) {
      if (keys_[i] == key) return algorithms_[i];
    }
    const Algorithm algorithm = ask(key, first, second, result);
    keys_[chosen_ % kRemembered] = key;
    algorithms_[chosen_ % kRemembered] = algorithm;
    chosen_ = chosen_ + 1 == 2 * kRemembered ? kRemembered : chosen_ + 1;
    return algorithm;
  }

  Algorithm ask(const Key& key, Layout& first, Layout& second, Layout& result) const {
    Opaque preference = nullptr;
    check(api_.pref_create(&preference), "creating a preference");
    api_.pref_set(preference, kPrefWorkspace, &kCublasLtWorkspaceBytes,
                  sizeof kCublasLtWorkspaceBytes);
    const uint32_t alignments[] = {key.align_b, key.align_a, key.align_c,
                                   key.align_c};  // of cuBLASLt's A, B, C and D
    for (int i = 0; i <= kPrefAlignD - kPrefAlignA; ++i)
      api_.pref_set(preference, kPrefAlignA + i, &alignments[i], sizeof alignments[i]);
    std::array<Heuristic, kProposals> found{};
    int count = 0;
    const int status = api_.choose(handle_, description(key.product), &first, &second, &result,
                                   &result, preference, kProposals, found.data(), &count);
    api_.pref_destroy(preference);
    const auto end = std::remove_if(found.begin(), found.begin() + std::clamp(count, 0, kProposals),
                                    [](const Heuristic& h) { return h.state != 0; });
    if (status != 0 || end == found.begin()) {
      fail(Status::not_supported,
           "cuBLASLt has no kernel for a matmul of " + std::string(name(key.type)) +
               " with m = " + std::to_string(key.m) + ", n = " + std::to_string(key.n) +
               ", k = " + std::to_string(key.k) + " (status " + std::to_string(status) +
               meaning(status) + ")");
    }
    const auto usable = static_cast<size_t>(end - found.begin());
    std::array<ProposedKernel, kProposals> proposed;
    std::transform(found.begin(), end, proposed.begin(), [this](const Heuristic& h) {
      return ProposedKernel{tile_of(h.algorithm), h.waves};
    });
    return found[choose_kernel(context_->info().arch, key.product, key.type, key.result,
                               {proposed.data(), usable})]
        .algorithm;
  }

  // Returns the tile of an algorithm, or 0 if cuBLASLt does not report it.
  int tile_of(const Algorithm& algorithm) const {
    int tile = 0;
    size_t written = 0;
    return api_.config_get(&algorithm, kConfigTile, &tile, sizeof tile, &written) == 0 ? tile : 0;
  }

  static constexpr int kRemembered = 64;

  std::shared_ptr<const PrimaryContext> context_;
  Api api_;
  Opaque handle_ = nullptr;
  Opaque descriptions_[3] = {};

  std::mutex mutex_;  // guards the members below; a forked child fails before it locks this
  int chosen_ = 0;
  Key keys_[kRemembered];
  Algorithm algorithms_[kRemembered];
};

}  // namespace

std::string describe_cublaslt(const std::string& path) {
  const Api api = load_api(path);
  std::string text = file_of(reinterpret_cast<const void*>(api.matmul));
  using Version = size_t (*)();
  if (auto version =
          reinterpret_cast<Version>(find_symbol(open_cublaslt(path), "cublasLtGetVersion"))) {
    const size_t number = version();  // 130101 is 13.1.1
    text += ", version " + std::to_string(number / 10000) + "." +
            std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
  }
  return text;
}

std::shared_ptr<Matmul> make_cuda_matmul(std::shared_ptr<const PrimaryContext> context,
                                         const std::string& path) {
  return std::make_shared<CudaMatmul>(std::move(context), path);
}

}  // namespace ligerdsl::runtime
