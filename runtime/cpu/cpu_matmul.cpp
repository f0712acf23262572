// Matmul by CBLAS. Its number of threads and other settings belong to the process, not to this
// library.
//
// OpenBLAS maps a buffer of 128 MiB for each of its threads and each concurrent caller. If it
// cannot map a buffer, it tries again forever. If it cannot start a thread, it raises SIGINT. This
// file therefore checks memory and threads before it loads OpenBLAS, and memory before calls that
// need it.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdlib>
#include <vector>

#include "runtime/device/thread_pool.h"
#include "runtime/environment/options.h"
#include "runtime/kernel/matmul.h"
#include "runtime/system/address_space.h"
#include "runtime/system/shared_library.h"
#include "runtime/system/status.h"

namespace ligerdsl::runtime {
namespace {

constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;
using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                       float alpha, const float* a, int stride_a, const float* b, int stride_b,
                       float beta, float* c, int stride_c);

struct Cblas {
  void* library;
  Sgemm sgemm;
};

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBuffer = 128 * kMiB;          // bytes of a thread's or caller's buffer
constexpr size_t kThread = kBuffer + 8 * kMiB;  // buffer and stack of a thread
constexpr size_t kLibrary = 64 * kMiB;          // code, data and allocations of constructors
constexpr int kMostThreads = 64;                // limit in distributions' builds of OpenBLAS

// Returns OpenBLAS's number of threads, including the caller.
int openblas_threads() {
  for (const std::string* text : {&options().openblas_threads, &options().openmp_threads}) {
    if (const int count = std::atoi(text->c_str()); count > 0) return std::min(count, kMostThreads);
  }
  return std::min(usable_cpus(), kMostThreads);
}

// Starts `count` concurrent threads and waits for their end. Returns false if one did not start.
bool can_start_threads(int count) {
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  std::vector<pthread_t> threads(static_cast<size_t>(count));
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_mutex_lock(&gate);
  const auto pass = [](void* held) -> void* {
    pthread_mutex_lock(static_cast<pthread_mutex_t*>(held));
    pthread_mutex_unlock(static_cast<pthread_mutex_t*>(held));
    return nullptr;
  };
  size_t started = 0;
  while (started < threads.size() && pthread_create(&threads[started], nullptr, pass, &gate) == 0)
    ++started;
  pthread_mutex_unlock(&gate);
  for (size_t i = 0; i < started; ++i) pthread_join(threads[i], nullptr);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started == threads.size();
}

bool is_loaded(const std::string& name) {
  void* library = dlopen(name.c_str(), RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL);
  if (library) dlclose(library);
  return library != nullptr;
}

// Returns why a CBLAS library must not be loaded into this process, or "" if it can be loaded.
std::string reason_not_to_load_cblas() {
  const int threads = openblas_threads();
  const size_t bytes = kLibrary + kBuffer + static_cast<size_t>(threads - 1) * kThread;
  if (address_space_limit() != 0 && !address_space_left_to_reserve(bytes))
    return "with " + std::to_string(threads) + " threads it needs up to " +
           std::to_string(bytes / kMiB) +
           " MiB of address space, which this process cannot get: raise `ulimit -v`, or set "
           "OPENBLAS_NUM_THREADS=1";
  if (!can_start_threads(threads - 1))
    return "it needs " + std::to_string(threads - 1) +
           " more threads, which this process cannot start: raise `ulimit -u`, or set "
           "OPENBLAS_NUM_THREADS=1";
  return "";
}

// Scope of a call to cblas_sgemm. A call reuses a buffer of an earlier call. It needs a new buffer
// only if more calls run at the same time than ever before.
class Caller {
 public:
  Caller() {
    const int inside = inside_.fetch_add(1) + 1;
    int known = buffers_.load();
    if (inside <= known) return;
    if (!address_space_left(kBuffer)) {
      inside_.fetch_sub(1);
      fail(Status::out_of_host_memory,
           "a matmul by CBLAS needs a buffer of " + std::to_string(kBuffer / kMiB) +
               " MiB of address space, which this process cannot get: raise `ulimit -v` or free "
               "memory");
    }
    while (known < inside && !buffers_.compare_exchange_weak(known, inside)) {
    }
  }
  ~Caller() { inside_.fetch_sub(1); }
  Caller(const Caller&) = delete;

 private:
  static std::atomic<int> inside_, buffers_;
};
std::atomic<int> Caller::inside_{0}, Caller::buffers_{0};

Cblas find_cblas(const std::string& path) {
  const std::string& named = path.empty() ? options().libcblas : path;
  const std::vector<std::string> names =
      named.empty() ? std::vector<std::string>{"libopenblas.so.0", "libcblas.so.3", "libblis.so.4"}
                    : std::vector{named};
  if (std::none_of(names.begin(), names.end(), is_loaded)) {
    if (const std::string reason = reason_not_to_load_cblas(); !reason.empty())
      fail(Status::not_supported, "the CBLAS library is not loaded: " + reason);
  }
  std::string tried;
  void* library = open_library(names, &tried);
  if (library) {
    if (auto sgemm = reinterpret_cast<Sgemm>(find_symbol(library, "cblas_sgemm")))
      return {library, sgemm};
    tried = "the library that was found has no function cblas_sgemm";
  }
  fail(Status::not_supported, "matmul on a CPU needs a CBLAS library: " + tried +
                                  "; install OpenBLAS (Debian and Ubuntu: libopenblas0), or set "
                                  "LIGERDSL_LIBCBLAS to the path of a library with cblas_sgemm");
}

class CpuMatmul final : public Matmul {
 public:
  explicit CpuMatmul(const std::string& path) : sgemm_(find_cblas(path).sgemm) {}

  size_t workspace_bytes() const override { return 0; }

 protected:
  void run(Product product, const Sizes& sizes, const Matrix& a, const Matrix& b, float beta,
           const Matrix& c, void*, Stream) override {
    for (const Matrix* m : {&a, &b, &c}) {
      if (m->type != f32)
        fail(Status::not_supported,
             std::string("matmul by CBLAS: expected f32, got a matrix of ") + name(m->type));
    }
    for (int64_t size : {sizes.m, sizes.n, sizes.k, a.stride, b.stride, c.stride}) {
      if (size > INT_MAX)
        fail(Status::not_supported,
             "CBLAS takes sizes and strides of at most 2147483647 elements, got " +
                 std::to_string(size));
    }
    const Caller with_a_buffer;
    sgemm_(kRowMajor, product == Product::tn ? kTranspose : kNoTranspose,
           product == Product::nt ? kTranspose : kNoTranspose, static_cast<int>(sizes.m),
           static_cast<int>(sizes.n), static_cast<int>(sizes.k), 1.0f,
           static_cast<const float*>(a.data), static_cast<int>(a.stride),
           static_cast<const float*>(b.data), static_cast<int>(b.stride), beta,
           static_cast<float*>(c.data), static_cast<int>(c.stride));
  }

 private:
  Sgemm sgemm_;
};

}  // namespace

std::string describe_cblas(const std::string& path) {
  const Cblas cblas = find_cblas(path);
  std::string text = file_of(reinterpret_cast<const void*>(cblas.sgemm));
  using Text = const char* (*)();
  // Appends the first two words of a text such as "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...".
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
