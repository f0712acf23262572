#include "runtime/device/thread_team.h"

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
constexpr int64_t kChunksPerThread = 4;  // so that faster threads can run more chunks

// Kernels run with default rounding and with denormals, whatever the calling thread has set. The
// result is then the same on the caller and on a worker.
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

// Blocks all signals, so that worker threads never run the host's signal handlers.
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

// Job on the stack of run()'s caller, which returns only after all workers have left the job.
struct ThreadPool::ThreadTeam::Job {
  Body body;
  void* user;
  int64_t total, chunk;
  std::atomic<int64_t> next{0};
  int32_t helpers = 0;  // number of workers in the job; guarded by the team's mutex
  Job* link = nullptr;  // next job in the team's list; guarded by the team's mutex

  bool exhausted() const { return next.load(std::memory_order_relaxed) >= total; }

  void work(void* arena) {
    const Scope scope;
    for (;;) {
      const int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= total) break;
      body(user, begin, std::min(begin + chunk, total), arena);
    }
  }

  // State of a thread while it runs programs.
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

thread_local bool ThreadPool::ThreadTeam::Job::inside_job = false;

struct ThreadPool::ThreadTeam::Arena {
  std::atomic<void*> memory{nullptr};
  bool lent = false;  // guarded by the team's mutex
};

ThreadPool::ThreadTeam::ThreadTeam(int32_t threads, HostAllocator allocator)
    : threads_(threads), allocator_(allocator) {
  const int32_t workers = threads_ - 1;
  // Callers share `threads_` arenas; additional callers wait for one.
  idle_caller_arenas_ = threads_;
  arena_count_ = workers + idle_caller_arenas_;
  arenas_ = std::make_unique<Arena[]>(static_cast<size_t>(arena_count_));
  SignalsBlocked blocked;
  try {
    for (int32_t i = 0; i < workers; ++i) workers_.emplace_back([this, i] { worker(i); });
  } catch (const std::exception& error) {
    stop();
    fail(Status::out_of_host_memory,
         "cannot start " + std::to_string(workers) + " worker threads: " + error.what());
  }
}

ThreadPool::ThreadTeam::~ThreadTeam() {
  stop();
  for (void* memory : regions_) release(memory);
}

void ThreadPool::ThreadTeam::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : workers_) thread.join();
  workers_.clear();
}

void* ThreadPool::ThreadTeam::acquire(size_t bytes) {
  void* memory = allocator_.alloc != nullptr ? allocator_.alloc(allocator_.user, bytes, kArenaAlign)
                                             : std::aligned_alloc(kArenaAlign, bytes);
  if (memory == nullptr)
    fail(Status::out_of_host_memory,
         "cannot allocate " + std::to_string(bytes) + " bytes of scratch memory for kernels");
  return memory;
}

void ThreadPool::ThreadTeam::release(void* memory) {
  if (allocator_.alloc != nullptr) {
    if (allocator_.free != nullptr) allocator_.free(allocator_.user, memory);
  } else {
    std::free(memory);
  }
}

void ThreadPool::ThreadTeam::reserve_arenas(size_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes <= arena_bytes_) return;
  // Running jobs may still use outgrown arenas, so these stay allocated. Sizes are powers of two,
  // so that all outgrown arenas together are smaller than the current arenas.
  const size_t each = std::bit_ceil(std::max(bytes, size_t{4096}));
  const size_t all = each * static_cast<size_t>(arena_count_);
  regions_.reserve(regions_.size() + 1);
  auto* memory = static_cast<char*>(acquire(all));
  regions_.push_back(memory);
  for (int32_t i = 0; i < arena_count_; ++i)
    arenas_[i].memory.store(memory + each * static_cast<size_t>(i), std::memory_order_release);
  arena_bytes_ = each;
}

void ThreadPool::ThreadTeam::worker(int32_t index) {
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

// The caller's arena for the duration of one run().
class ThreadPool::ThreadTeam::ArenaLease {
 public:
  ArenaLease(ThreadTeam& team, std::unique_lock<std::mutex>& lock) : team_(team) {
    // A nested job must not wait for an arena: the jobs that hold them may be waiting for this job.
    if (Job::inside_job && team.idle_caller_arenas_ == 0) {
      memory_ = spare_ = team.acquire(std::max(team.arena_bytes_, kArenaAlign));
      return;
    }
    team.arena_free_.wait(lock, [&] { return team.idle_caller_arenas_ > 0; });
    --team.idle_caller_arenas_;
    index_ = team.threads_ - 1;
    while (team.arenas_[index_].lent) ++index_;
    team.arenas_[index_].lent = true;
    memory_ = team.arenas_[index_].memory.load(std::memory_order_acquire);
  }

  // Releases the arena. The caller holds the team's mutex.
  void give_back() {
    if (spare_ != nullptr) return team_.release(spare_);
    team_.arenas_[index_].lent = false;
    if (team_.idle_caller_arenas_++ == 0) team_.arena_free_.notify_all();
  }

  void* memory() const { return memory_; }

 private:
  ThreadTeam& team_;
  int32_t index_ = 0;
  void* memory_ = nullptr;
  void* spare_ = nullptr;
};

void ThreadPool::ThreadTeam::run(int64_t total, int64_t chunk, Body body, void* user) {
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

void ThreadPool::ThreadTeam::wake(int64_t helpers) {
  if (helpers >= threads_ - 1) return work_.notify_all();
  for (; helpers > 0; --helpers) work_.notify_one();
}

// No other thread takes part, so the range is not divided into chunks.
void ThreadPool::ThreadTeam::run_inline(int64_t total, bool arena, Body body, void* user) {
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
