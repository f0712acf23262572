#include "runtime/device/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "runtime/device/thread_team.h"

namespace ligerdsl::runtime {

int32_t usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(CPU_COUNT(&set), 1);
  return std::max<int32_t>(static_cast<int32_t>(std::thread::hardware_concurrency()), 1);
}

ThreadPool::ThreadPool(int32_t threads, HostAllocator allocator)
    : threads_(threads > 0 ? threads : usable_cpus()),
      allocator_(allocator),
      team_(std::make_shared<ThreadTeam>(threads_, allocator)) {}

ThreadPool::~ThreadPool() = default;

ThreadPool::ThreadTeam& ThreadPool::team() {
  return team_.get([this](const ThreadTeam& parents) {
    auto alone = std::make_shared<ThreadTeam>(1, allocator_);
    alone->reserve_arenas(parents.arena_bytes());
    return alone;
  });
}

void ThreadPool::reserve_arenas(size_t bytes) {
  team().reserve_arenas(bytes);
}

void ThreadPool::run(int64_t total, int64_t chunk, Body body, void* user) {
  team().run(total, chunk, body, user);
}

void ThreadPool::run_inline(int64_t total, bool arena, Body body, void* user) {
  team().run_inline(total, arena, body, user);
}

}  // namespace ligerdsl::runtime
