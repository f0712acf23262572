// CBLAS with our own threads. OpenBLAS gets one thread, because its idle workers would spin while
// libligerdsl's kernels run. Also, a batch of small matmuls is faster if each thread computes whole
// matmuls.
#include <cblas.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "matmul.h"

extern "C" __attribute__((weak)) void openblas_set_num_threads(int);

namespace train {
namespace {

// Runs one function on every worker and on the caller, then waits for all of them.
class Team {
 public:
  // Continues with fewer threads if the system refuses more.
  explicit Team(int threads) {
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
    } catch (const std::system_error&) {
    }
  }
  ~Team() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    start_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }
  int size() const { return static_cast<int>(workers_.size()) + 1; }

  void run(const std::function<void(int)>& body) {
    {
      std::lock_guard lock(mutex_);
      body_ = &body;
      running_ = size() - 1;
      ++round_;
    }
    start_.notify_all();
    body(0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return running_ == 0; });
  }

 private:
  void work(int index) {
    for (uint64_t seen = 0;;) {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
      lock.unlock();
      (*body_)(index);
      lock.lock();
      if (--running_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(int)>* body_ = nullptr;
  uint64_t round_ = 0;
  int running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

void sgemm(int64_t m, int64_t n, int64_t k, float alpha, const Matrix& a, const Matrix& b,
           float beta, const Matrix& c) {
  cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
              b.transposed ? CblasTrans : CblasNoTrans, m, n, k, alpha,
              static_cast<const float*>(a.data), a.ld, static_cast<const float*>(b.data), b.ld,
              beta, static_cast<float*>(c.data), c.ld);
}

// Returns op(x) from row (or column) `from` on.
Matrix part(Matrix x, bool rows, int64_t from) {
  x.data = static_cast<float*>(x.data) + from * (rows != x.transposed ? x.ld : 1);
  return x;
}

class CpuMatmul : public Matmul {
 public:
  explicit CpuMatmul(int threads) : team_(threads) {
    if (openblas_set_num_threads) openblas_set_num_threads(1);
  }

  // Each thread computes a slice of c along its longer side.
  void multiply(int64_t m, int64_t n, int64_t k, float alpha, const Matrix& a, const Matrix& b,
                float beta, const Matrix& c) override {
    bool by_rows = m >= n;
    int64_t length = by_rows ? m : n, slice = (length / team_.size() + 63) / 64 * 64;
    if (slice >= length) return sgemm(m, n, k, alpha, a, b, beta, c);
    team_.run([&](int index) {
      int64_t from = index * slice,
              to = index + 1 == team_.size() ? length : std::min(length, from + slice);
      if (from >= to) return;
      if (by_rows) {
        sgemm(to - from, n, k, alpha, part(a, true, from), b, beta, part(c, true, from));
      } else {
        sgemm(m, to - from, k, alpha, a, part(b, false, from), beta, part(c, false, from));
      }
    });
  }

  void multiply_batch(int64_t outer, int64_t inner, int64_t m, int64_t n, int64_t k, float alpha,
                      const Matrix& a, const Matrix& b, float beta, const Matrix& c) override {
    team_.run([&](int index) {
      for (int64_t i = index; i < outer * inner; i += team_.size()) {
        int64_t o = i / inner, e = i % inner;
        sgemm(m, n, k, alpha, a.at(o, e), b.at(o, e), beta, c.at(o, e));
      }
    });
  }

 private:
  Team team_;
};

}  // namespace

std::unique_ptr<Matmul> make_cpu_matmul(int threads) {
  if (threads <= 0) threads = std::max(1u, std::thread::hardware_concurrency());
  return std::make_unique<CpuMatmul>(threads);
}

std::unique_ptr<Matmul> make_matmul(Ops& ops, Products products, int threads) {
  auto library =
      ops.on_gpu() ? make_cuda_matmul(ops.device_index(), ops.stream()) : make_cpu_matmul(threads);
  return products == Products::kernels ? make_kernel_matmul(ops, std::move(library))
                                       : std::move(library);
}

}  // namespace train
