#include "runtime/system/fork.h"

#include <pthread.h>

#include <vector>

namespace ligerdsl::runtime {
namespace {

std::atomic<uint32_t> generation{0};

constexpr uint64_t kWaiting = uint64_t{1} << 31;
constexpr uint64_t kUsers = kWaiting - 1;

uint32_t generation_of(uint64_t word) {
  return static_cast<uint32_t>(word >> 32);
}

// The mutexes that all ForkMutex objects share. Their number is small, because fork() locks each.
class SharedMutexes {
 public:
  static SharedMutexes& instance() {
    static SharedMutexes* const all = [] {
      pthread_atfork([] { instance().lock(); }, [] { instance().unlock(); },
                     [] {
                       generation.fetch_add(1);
                       instance().unlock();
                     });
      return new SharedMutexes;
    }();
    return *all;
  }

  std::mutex& next() { return places_[used_.fetch_add(1) % kCount].mutex; }

 private:
  void lock() {
    for (Place& place : places_) place.mutex.lock();
  }
  void unlock() {
    for (Place& place : places_) place.mutex.unlock();
  }

  static constexpr uint32_t kCount = 16;
  struct alignas(64) Place {  // one cache line each
    std::mutex mutex;
  };
  Place places_[kCount];
  std::atomic<uint32_t> used_{0};
};

}  // namespace

uint32_t fork_generation() {
  SharedMutexes::instance();  // the first call installs the fork handlers
  return generation.load(std::memory_order_relaxed);
}

ForkMutex::ForkMutex() : mutex_(SharedMutexes::instance().next()) {}

uint32_t UseCount::enter() {
  const uint32_t now = fork_generation();
  uint64_t word = word_.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t next = generation_of(word) == now ? word + 1 : (uint64_t{now} << 32) + 1;
    if (word_.compare_exchange_weak(word, next)) return now;
  }
}

void UseCount::leave(uint32_t entered) {
  if (entered != fork_generation()) return;  // entered before the fork, by a thread of the parent
  if ((word_.fetch_sub(1) & kWaiting) == 0) return;
  left_.fetch_add(1);
  left_.notify_all();
}

void UseCount::wait_until_left() {
  for (;;) {
    const uint32_t seen = left_.load();
    const uint64_t word = word_.load();
    if (generation_of(word) != fork_generation() || (word & kUsers) == 0) break;
    if ((word_.fetch_or(kWaiting) & kUsers) == 0) break;
    left_.wait(seen);
  }
  word_.fetch_and(~kWaiting);
}

bool UseCount::abandoned() const {
  const uint64_t word = word_.load();
  return generation_of(word) != fork_generation() && (word & kUsers) != 0;
}

void leave_behind(std::shared_ptr<void> object) {
  static auto* const mutex = new ForkMutex;
  static auto* const all = new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(*mutex);
  all->push_back(std::move(object));
}

}  // namespace ligerdsl::runtime
