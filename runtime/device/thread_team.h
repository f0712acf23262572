// Threads, arenas and jobs of a thread pool in the process that created them. See thread_pool.h.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/device/thread_pool.h"

namespace ligerdsl::runtime {

class ThreadPool::ThreadTeam {
 public:
  ThreadTeam(int32_t threads, HostAllocator allocator);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // The functions of ThreadPool with the same names call these functions.
  void reserve_arenas(size_t bytes);
  void run(int64_t total, int64_t chunk, Body body, void* user);
  void run_inline(int64_t total, bool arena, Body body, void* user);

  size_t arena_bytes() const { return arena_bytes_; }

 private:
  struct Job;
  struct Arena;
  class ArenaLease;

  void worker(int32_t index);
  void wake(int64_t helpers);
  void stop();
  void* acquire(size_t bytes);
  void release(void* memory);

  int32_t threads_ = 1;
  HostAllocator allocator_;
  std::vector<std::thread> workers_;

  std::mutex mutex_;  // guards all members below except the arenas' atomics
  std::condition_variable work_, done_, arena_free_;
  Job* jobs_ = nullptr;  // newest first
  bool stopping_ = false;

  // Arenas [0, threads - 1) belong to the workers. The other arenas are lent to callers.
  std::unique_ptr<Arena[]> arenas_;
  int32_t arena_count_ = 0;
  int32_t idle_caller_arenas_ = 0;
  size_t arena_bytes_ = 0;
  std::vector<void*> regions_;  // memory of all arenas, including outgrown ones
};

}  // namespace ligerdsl::runtime
