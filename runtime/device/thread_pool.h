// Runs the programs of a CPU grid on worker threads.
//
// A context has one pool. A job is an index range [0, total), divided into chunks that the workers
// and the caller claim from an atomic counter. The thread that runs a chunk changes from run to
// run, so a job's result must not depend on it. Kernels therefore store to disjoint places and
// reduce in an order fixed by the grid. Jobs may come from several threads at once, and from inside
// a job. run() allocates no memory: the job is on the caller's stack, and reserve_arenas()
// allocates the arenas.
//
// Worker threads do not survive fork(). In a forked child a pool runs on the calling thread alone,
// and its first call allocates an arena.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/system/fork.h"

namespace ligerdsl::runtime {

// Allocator of long-lived host memory; null functions select the C library's.
struct HostAllocator {
  void* user = nullptr;
  void* (*alloc)(void* user, size_t bytes, size_t align) = nullptr;
  void (*free)(void* user, void* pointer) = nullptr;
};

class ThreadPool {
 public:
  // Runs [begin, end) and does not throw. `arena` has at least the reserved bytes, is 64-byte
  // aligned, and belongs to this call alone.
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

  // Returns after every index has run. A thread claims `chunk` indices at a time; 0 derives the
  // number from total and threads.
  void run(int64_t total, int64_t chunk, Body body, void* user);
  // Runs the job on the calling thread alone. Without `arena` the body gets none, and the call
  // never waits.
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
