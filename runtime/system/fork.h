// Classes for state that a forked child inherits, although it lacks the parent's other threads.
//
// fork() copies the memory, but only the calling thread. In the child, a mutex that another thread
// held stays locked forever, and the state that it guards may be half changed. A condition variable
// has waiters that never leave, and destroying it waits for them. A count of users never becomes
// zero. State that outlives a call and may be used in a child therefore uses the classes of this
// file for locks, waits and counts. Other state is created anew in each process (PerProcess).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace ligerdsl::runtime {

// Returns the generation of this process. A forked child has another generation than its parent.
uint32_t fork_generation();

// A mutex that is free in a forked child, with consistent state, because fork() waits until no
// thread holds it. Use it for a few lines only. While it is locked, do not wait and do not call the
// host. Do not lock another ForkMutex either, because objects share a few mutexes.
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

// Replaces a condition variable. It keeps no list of waiters, so a child may use and destroy it.
class EventCount {
 public:
  // Unlocks, waits, and locks again. May return without a notification. The awaited state must
  // change under the same lock.
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

// Counts the threads of this process that are inside a scope. A forked child begins with 0.
class UseCount {
 public:
  // Returns the value to pass to leave().
  uint32_t enter();
  void leave(uint32_t entered);
  // Waits until no thread is inside. The caller must prevent threads from entering. One thread at a
  // time may wait.
  void wait_until_left();
  // Returns true if threads were inside when this process was forked, and none has entered since.
  bool abandoned() const;

 private:
  std::atomic<uint64_t> word_{
      0};  // bits from the top: 32 of generation, 1 if a thread waits, 31 of users
  std::atomic<uint32_t> left_{0};  // changes when a thread leaves while another waits
};

// Keeps an object forever, because it can be neither used nor destroyed.
void leave_behind(std::shared_ptr<void> object);

// An object with one instance per process. A forked child makes a new instance. It does not touch
// the parent's instance, because other threads of the parent may have been changing it.
template <class T>
class PerProcess {
 public:
  explicit PerProcess(std::shared_ptr<T> first)
      : current_(new Node{fork_generation(), std::move(first)}) {}
  ~PerProcess() {
    const std::unique_ptr<Node> node(current_.load());
    if (node->generation != fork_generation()) leave_behind(std::move(node->object));
  }
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  // Returns the instance. A child's first call replaces it by make(parent's instance), which
  // returns a std::shared_ptr.
  template <class Make>
  T& get(Make make) {
    Node* node = current_.load(std::memory_order_acquire);
    if (node->generation == fork_generation()) return *node->object;
    auto fresh = std::make_unique<Node>(fork_generation(), make(*node->object));
    if (!current_.compare_exchange_strong(node, fresh.get()))
      return *node->object;  // another thread has replaced it
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
