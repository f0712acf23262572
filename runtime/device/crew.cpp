#include "runtime/device/crew.h"

#include <signal.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "runtime/system/status.h"

namespace ligerdsl::runtime {
namespace {

constexpr size_t kArenaAlign = 64;
constexpr int64_t kChunksPerThread = 4;  // enough to even out threads of different speed

// Kernels compute with the default rounding and with denormals whatever the calling thread has set: a result must not
// depend on whether the caller or a worker ran a chunk.
class DefaultFloatMode {
 public:
#if defined(__SSE__)
  DefaultFloatMode() : saved_(_mm_getcsr()) {
    if (saved_ != kDefault) _mm_setcsr(kDefault);
  }
  ~DefaultFloatMode() {
    if (saved_ != kDefault) _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kDefault = 0x1f80;
  unsigned saved_;
#else
  DefaultFloatMode() {}
#endif
};

// Threads of ours never run the host's signal handlers.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }

 private:
  sigset_t saved_;
};

}  // namespace

// A job lives on the stack of run()'s caller, who leaves only when no worker holds it any more.
struct ThreadPool::Crew::Job {
  Body body;
  void* user;
  int64_t total, chunk;
  std::atomic<int64_t> next{0};
  int32_t helpers = 0;  // workers inside; guarded by the crew's mutex
  Job* link = nullptr;  // next in the crew's list; guarded likewise

  bool exhausted() const { return next.load(std::memory_order_relaxed) >= total; }

  void work(void* arena) {
    const Scope scope;
    for (;;) {
      const int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= total) break;
      body(user, begin, std::min(begin + chunk, total), arena);
    }
  }

  // What a thread is in while it runs programs.
  class Scope {
   public:
    Scope() : outer_(std::exchange(inside_job, true)) {}
    ~Scope() { inside_job = outer_; }

   private:
    DefaultFloatMode mode_;
    bool outer_;
  };

  static thread_local bool inside_job;
};

thread_local bool ThreadPool::Crew::Job::inside_job = false;

struct ThreadPool::Crew::Arena {
  std::atomic<void*> memory{nullptr};
  bool lent = false;  // guarded by the crew's mutex
};

ThreadPool::Crew::Crew(int32_t threads, HostAllocator allocator) : threads_(threads), allocator_(allocator) {
  const int32_t workers = threads_ - 1;
  // As many callers as threads find an arena at once; more of them wait for one.
  idle_caller_arenas_ = threads_;
  arena_count_ = workers + idle_caller_arenas_;
  arenas_ = std::make_unique<Arena[]>(static_cast<size_t>(arena_count_));
  SignalsBlocked blocked;
  try {
    for (int32_t i = 0; i < workers; ++i) workers_.emplace_back([this, i] { worker(i); });
  } catch (const std::exception& error) {
    stop();
    fail(Status::out_of_host_memory, "cannot start " + std::to_string(workers) + " worker threads: " + error.what());
  }
}

ThreadPool::Crew::~Crew() {
  stop();
  for (void* memory : regions_) release(memory);
}

void ThreadPool::Crew::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : workers_) thread.join();
  workers_.clear();
}

void* ThreadPool::Crew::acquire(size_t bytes) {
  void* memory = allocator_.alloc != nullptr ? allocator_.alloc(allocator_.user, bytes, kArenaAlign)
                                             : std::aligned_alloc(kArenaAlign, bytes);
  if (memory == nullptr)
    fail(Status::out_of_host_memory, "cannot get " + std::to_string(bytes) + " bytes for kernel scratch");
  return memory;
}

void ThreadPool::Crew::release(void* memory) {
  if (allocator_.alloc != nullptr) {
    if (allocator_.free != nullptr) allocator_.free(allocator_.user, memory);
  } else {
    std::free(memory);
  }
}

void ThreadPool::Crew::reserve_arenas(size_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes <= arena_bytes_) return;
  // Powers of two keep the sum of outgrown arenas, which running jobs may still use, below the size of the current
  // ones.
  const size_t each = std::bit_ceil(std::max(bytes, size_t{4096}));
  const size_t all = each * static_cast<size_t>(arena_count_);
  regions_.reserve(regions_.size() + 1);
  auto* memory = static_cast<char*>(acquire(all));
  regions_.push_back(memory);
  for (int32_t i = 0; i < arena_count_; ++i)
    arenas_[i].memory.store(memory + each * static_cast<size_t>(i), std::memory_order_release);
  arena_bytes_ = each;
}

void ThreadPool::Crew::worker(int32_t index) {
  std::unique_lock lock(mutex_);
  for (;;) {
    Job* job = jobs_;
    while (job != nullptr && job->exhausted()) job = job->link;
    if (job == nullptr) {
      if (stopping_) return;
      work_.wait(lock);
      continue;
    }
    ++job->helpers;
    lock.unlock();
    job->work(arenas_[index].memory.load(std::memory_order_acquire));
    lock.lock();
    if (--job->helpers == 0) done_.notify_all();
  }
}

// An arena for the time of one run() on the caller's thread.
class ThreadPool::Crew::ArenaLease {
 public:
  ArenaLease(Crew& crew, std::unique_lock<std::mutex>& lock) : crew_(crew) {
    // A job started inside a job must not wait: those who hold the arenas may be waiting for it.
    if (Job::inside_job && crew.idle_caller_arenas_ == 0) {
      memory_ = spare_ = crew.acquire(std::max(crew.arena_bytes_, kArenaAlign));
      return;
    }
    crew.arena_free_.wait(lock, [&] { return crew.idle_caller_arenas_ > 0; });
    --crew.idle_caller_arenas_;
    index_ = crew.threads_ - 1;
    while (crew.arenas_[index_].lent) ++index_;
    crew.arenas_[index_].lent = true;
    memory_ = crew.arenas_[index_].memory.load(std::memory_order_acquire);
  }

  // The crew's mutex is held.
  void give_back() {
    if (spare_ != nullptr) return crew_.release(spare_);
    crew_.arenas_[index_].lent = false;
    if (crew_.idle_caller_arenas_++ == 0) crew_.arena_free_.notify_all();
  }

  void* memory() const { return memory_; }

 private:
  Crew& crew_;
  int32_t index_ = 0;
  void* memory_ = nullptr;
  void* spare_ = nullptr;
};

void ThreadPool::Crew::run(int64_t total, int64_t chunk, Body body, void* user) {
  if (threads_ == 1 || total <= 1) return run_inline(total, true, body, user);
  if (chunk <= 0) chunk = std::max<int64_t>(total / (threads_ * kChunksPerThread), 1);
  Job job{body, user, total, chunk};
  std::unique_lock lock(mutex_);
  ArenaLease lease(*this, lock);
  job.link = jobs_;
  jobs_ = &job;
  lock.unlock();
  wake((total + chunk - 1) / chunk - 1);
  job.work(lease.memory());
  lock.lock();
  Job** place = &jobs_;
  while (*place != &job) place = &(*place)->link;
  *place = job.link;
  done_.wait(lock, [&] { return job.helpers == 0; });
  lease.give_back();
}

void ThreadPool::Crew::wake(int64_t helpers) {
  if (helpers >= threads_ - 1) return work_.notify_all();
  for (; helpers > 0; --helpers) work_.notify_one();
}

// Nobody else takes part, so nothing is dealt.
void ThreadPool::Crew::run_inline(int64_t total, bool arena, Body body, void* user) {
  if (total <= 0) return;
  const auto work = [&](void* memory) {
    const Job::Scope scope;
    body(user, 0, total, memory);
  };
  if (!arena) return work(nullptr);
  std::unique_lock lock(mutex_);
  ArenaLease lease(*this, lock);
  lock.unlock();
  work(lease.memory());
  lock.lock();
  lease.give_back();
}

}  // namespace ligerdsl::runtime
