#include "runtime/device/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cfloat>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "support.h"
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace ligerdsl::runtime {
namespace {

struct Counts {
  std::vector<std::atomic<int>> hits;
  explicit Counts(size_t n) : hits(n) {}
  static void body(void* user, int64_t begin, int64_t end, void*) {
    for (int64_t i = begin; i < end; ++i)
      ++static_cast<Counts*>(user)->hits[static_cast<size_t>(i)];
  }
};

TEST(ThreadPool, RunsEveryIndexOnce) {
  for (int threads : {1, 2, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t total : {0, 1, 2, 3, 17, 1000})
      for (int64_t chunk : {0, 1, 5, 2000}) {
        Counts counts(static_cast<size_t>(total));
        pool.run(total, chunk, &Counts::body, &counts);
        for (auto& hit : counts.hits) EXPECT_EQ(hit, 1) << threads << " " << total << " " << chunk;
      }
  }
}

// Like a kernel, each index writes its own row to the arena and adds its elements in a fixed order.
std::vector<float> row_sums(int threads) {
  constexpr int64_t rows = 500, columns = 200;
  struct Job {
    std::vector<float> out = std::vector<float>(rows);
  } job;
  ThreadPool pool(threads);
  pool.reserve_arenas(columns * sizeof(float));
  pool.run(
      rows, 0,
      [](void* user, int64_t begin, int64_t end, void* arena) {
        auto* scratch = static_cast<float*>(arena);
        for (int64_t row = begin; row < end; ++row) {
          for (int64_t i = 0; i < columns; ++i)
            scratch[i] = 1.0f / static_cast<float>(1 + (row * 31 + i * 17) % 101);
          static_cast<Job*>(user)->out[static_cast<size_t>(row)] =
              std::accumulate(scratch, scratch + columns, 0.0f);
        }
      },
      &job);
  return job.out;
}

TEST(ThreadPool, ResultsDoNotDependOnTheNumberOfThreads) {
  const std::vector<float> one = row_sums(1);
  for (int threads : {2, 7}) {
    const std::vector<float> many = row_sums(threads);
    EXPECT_EQ(memcmp(one.data(), many.data(), one.size() * sizeof(float)), 0) << threads;
  }
}

TEST(ThreadPool, ArenasAreAlignedLargeEnoughAndUnshared) {
  ThreadPool pool(4);
  for (size_t bytes : {size_t{100}, size_t{70000}, size_t{50}}) {
    pool.reserve_arenas(bytes);
    struct Job {
      size_t bytes;
      std::atomic<int> shared{0}, misaligned{0};
    } job{bytes};
    pool.run(
        200, 1,
        [](void* user, int64_t begin, int64_t, void* arena) {
          Job& it = *static_cast<Job*>(user);
          if (reinterpret_cast<uintptr_t>(arena) % 64 != 0) ++it.misaligned;
          memset(arena, static_cast<int>(begin % 251), it.bytes);
          for (size_t i = 0; i < it.bytes; i += 64)
            if (static_cast<uint8_t*>(arena)[i] != begin % 251) ++it.shared;
        },
        &job);
    EXPECT_EQ(job.shared, 0);
    EXPECT_EQ(job.misaligned, 0);
  }
}

TEST(ThreadPool, RunsJobsOfManyThreadsConcurrently) {
  ThreadPool pool(3);
  pool.reserve_arenas(256);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int c = 0; c < 8; ++c)
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        Counts counts(64);
        pool.run(64, 1, &Counts::body, &counts);
        for (auto& hit : counts.hits) wrong += hit != 1;
        if (i == 20) pool.reserve_arenas(10000);
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, NestedJobsDoNotDeadlock) {
  for (int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    pool.reserve_arenas(128);
    struct Job {
      ThreadPool* pool;
      std::atomic<int> leaves{0};
      static void leaf(void* user, int64_t begin, int64_t end, void* arena) {
        memset(arena, 1, 128);
        static_cast<Job*>(user)->leaves += static_cast<int>(end - begin);
      }
      static void middle(void* user, int64_t begin, int64_t end, void*) {
        for (int64_t i = begin; i < end; ++i) static_cast<Job*>(user)->pool->run(5, 1, &leaf, user);
      }
      static void outer(void* user, int64_t begin, int64_t end, void*) {
        for (int64_t i = begin; i < end; ++i)
          static_cast<Job*>(user)->pool->run(4, 1, &middle, user);
      }
    } job{&pool};
    pool.run(6, 1, &Job::outer, &job);
    EXPECT_EQ(job.leaves, 6 * 4 * 5);
  }
}

TEST(ThreadPool, WorksInAForkedChild) {
  ThreadPool pool(3);
  pool.reserve_arenas(64);
  Counts before(10);
  pool.run(10, 1, &Counts::body, &before);
  EXPECT_TRUE(test::passes_in_child([&] {
    Counts counts(100);
    pool.run(100, 1, &Counts::body, &counts);
    for (auto& hit : counts.hits)
      if (hit != 1) return false;
    return true;
  }));
}

#if defined(__SSE__)
TEST(ThreadPool, IgnoresAndKeepsTheCallersFloatMode) {
  ThreadPool pool(2);
  struct Job {
    std::vector<float> out = std::vector<float>(64);
  } job;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // sets FTZ and DAZ: denormals become zero
  pool.run(
      64, 1,
      [](void* user, int64_t begin, int64_t, void*) {
        volatile float tiny = FLT_MIN;
        static_cast<Job*>(user)->out[static_cast<size_t>(begin)] = tiny / 4;
      },
      &job);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & 0x8040, 0x8040u);
  for (float value : job.out) EXPECT_EQ(value, FLT_MIN / 4);
}
#endif

TEST(ThreadPool, HostAllocatorServesEveryArena) {
  struct Allocations {
    std::set<void*> live;
    int made = 0;
  } allocations;
  HostAllocator allocator{&allocations,
                          [](void* user, size_t bytes, size_t align) -> void* {
                            void* memory = aligned_alloc(align, bytes);
                            static_cast<Allocations*>(user)->live.insert(memory);
                            ++static_cast<Allocations*>(user)->made;
                            return memory;
                          },
                          [](void* user, void* memory) {
                            static_cast<Allocations*>(user)->live.erase(memory);
                            ::free(memory);
                          }};
  {
    ThreadPool pool(2, allocator);
    pool.reserve_arenas(1000);
    pool.reserve_arenas(100000);
    EXPECT_EQ(allocations.made, 2);
  }
  EXPECT_TRUE(allocations.live.empty());
}

TEST(ThreadPool, StaysUsableAfterAnAllocationFailure) {
  HostAllocator allocator{nullptr, [](void*, size_t, size_t) -> void* { return nullptr; }, nullptr};
  ThreadPool pool(2, allocator);
  test::expect_error(Status::out_of_host_memory, [&] { pool.reserve_arenas(1000); });
  Counts counts(10);
  pool.run(10, 1, &Counts::body, &counts);
  EXPECT_EQ(counts.hits[9], 1);
}

}  // namespace
}  // namespace ligerdsl::runtime
