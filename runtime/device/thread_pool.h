// Runs the programs of a CPU grid on worker threads.
//
// A context has one pool. A job is an index range [0, total), divided into chunks that the workers
// and the caller claim from an atomic counter. A chunk may run on another thread in each run, so a
// job's result must not depend on the thread. Kernels therefore store to disjoint memory and reduce
// in an order that the grid determines. Several threads may start jobs at once, and a job may start
// jobs. The job is on the caller's stack, and reserve_arenas() allocates the arenas. run()
// therefore allocates no memory, unless a nested job finds no free arena.
//
// Worker threads do not survive fork(). In a forked child a pool runs on the calling thread alone,
// and its first call allocates an arena.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/system/fork.h"

namespace ligerdsl::runtime {

// Allocator of long-lived host memory. If its functions are null, the C library allocates.
struct HostAllocator {
  void* user = nullptr;
  void* (*alloc)(void* user, size_t bytes, size_t align) = nullptr;
  void (*free)(void* user, void* pointer) = nullptr;
};

class ThreadPool {
 public:
  // Runs the indices [begin, end) and does not throw. `arena` has at least the reserved bytes, is
  // 64-byte aligned, and belongs to this call alone.
  using Body = void (*)(void* user, int64_t begin, int64_t end, void* arena);

  // `threads` includes the caller, so 1 starts no thread. 0 means one per CPU that this process may
  // use.
  explicit ThreadPool(int32_t threads, HostAllocator allocator = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int32_t threads() const { return threads_; }

  // Makes every arena at least this large. Arenas in use stay valid until the pool is destroyed.
  void reserve_arenas(size_t bytes);

  // Returns after every index has run. A thread claims `chunk` indices at a time; 0 derives
  // the number from `total` and the number of threads.
  void run(int64_t total, int64_t chunk, Body body, void* user);
  // Runs the job on the calling thread alone. If `arena` is false, the body gets a null arena, and
  // the call never waits.
  void run_inline(int64_t total, bool arena, Body body, void* user);

 private:
  class ThreadTeam;

  ThreadTeam& team();

  int32_t threads_;
  HostAllocator allocator_;
  PerProcess<ThreadTeam> team_;
};

// Returns the number of CPUs that this process may run on, at least 1.
int32_t usable_cpus();

}  // namespace ligerdsl::runtime
