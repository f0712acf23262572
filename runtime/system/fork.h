// What a forked child inherits of threads that it does not have.
//
// fork() copies the memory and the calling thread alone. In the child a mutex that another thread held stays locked for
// ever and what it guards is half changed, a condition variable has waiters that never leave (destroying it waits for
// them), and a number of users never falls to 0. So what outlives a call and may be touched in a child is guarded,
// awaited and counted with the classes of this file, or is made anew by each process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace ligerdsl::runtime {

// A number of this process; in a forked child it is another one.
uint32_t fork_generation();

// A mutex that is free in a forked child, and what it guards is whole there: fork() waits until no thread holds it. So
// it is for a few lines: inside, nothing waits, nothing calls the host, and no other mutex of this kind is locked
// (there are only a few in the process, which objects share).
class ForkMutex {
 public:
  ForkMutex();
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex& mutex_;
};

// What a condition variable is for. It knows nothing of its waiters, so a child may use and destroy it.
class EventCount {
 public:
  // Unlocks, waits, locks. Also returns for no reason; what is waited for changes under the same lock.
  template <class Lock>
  void wait(Lock& lock) {
    const uint32_t seen = number_.load();
    lock.unlock();
    number_.wait(seen);
    lock.lock();
  }
  void notify_all() {
    number_.fetch_add(1);
    number_.notify_all();
  }

 private:
  std::atomic<uint32_t> number_{0};
};

// How many threads of this process are inside something. A forked child begins with none.
class UseCount {
 public:
  // Returns what leave() wants to know.
  uint32_t enter();
  void leave(uint32_t entered);
  // Waits until nobody is inside. Who enters meanwhile is the caller's business. One thread at a time.
  void wait_until_left();
  // Threads of the parent were inside when this process was forked, and nobody has entered since.
  bool abandoned() const;

 private:
  std::atomic<uint64_t> word_{0};  // from the high end: generation (32), somebody waits (1), users (31)
  std::atomic<uint32_t> left_{0};  // changes when somebody leaves and somebody waits
};

// Keeps what can be neither used nor destroyed.
void leave_behind(std::shared_ptr<void> object);

// An object of which every process has its own. A forked child makes a new one; its parent's stays as it is, since
// threads that the child does not have may have been at work on it.
template <class T>
class PerProcess {
 public:
  explicit PerProcess(std::shared_ptr<T> first) : current_(new Node{fork_generation(), std::move(first)}) {}
  ~PerProcess() {
    const std::unique_ptr<Node> node(current_.load());
    if (node->generation != fork_generation()) leave_behind(std::move(node->object));
  }
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  // The object; in a child the first call takes what `make(parent's)` returns, a std::shared_ptr.
  template <class Make>
  T& get(Make make) {
    Node* node = current_.load(std::memory_order_acquire);
    if (node->generation == fork_generation()) return *node->object;
    auto fresh = std::make_unique<Node>(fork_generation(), make(*node->object));
    if (!current_.compare_exchange_strong(node, fresh.get())) return *node->object;  // another thread was first
    leave_behind(std::shared_ptr<Node>(node));
    return *fresh.release()->object;
  }

 private:
  struct Node {
    uint32_t generation;
    std::shared_ptr<T> object;
  };
  std::atomic<Node*> current_;
};

}  // namespace ligerdsl::runtime
