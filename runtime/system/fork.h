// Classes for state that a forked child inherits from threads that it does not have.
//
// fork() copies the memory and the calling thread alone. In the child, a mutex of another thread
// stays locked forever, and the state that it guards is half changed. A condition variable has
// waiters that never leave, and destroying it waits for them. A count of users never falls to 0.
// State that outlives a call and may be used in a child therefore uses the classes of this file for
// locks, waits and counts. Otherwise each process makes its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace ligerdsl::runtime {

// Returns this process's generation. A forked child has another one.
uint32_t fork_generation();

// A mutex that is free in a forked child, with consistent state: fork() waits until no thread holds
// it. Use it for a few lines only. Inside, do not wait, do not call the host, and do not lock
// another ForkMutex: objects share a few mutexes.
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

// Replaces a condition variable. It does not know its waiters, so a child may use and destroy it.
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

// Number of this process's threads inside a scope. A forked child begins with 0.
class UseCount {
 public:
  // Returns the argument of leave().
  uint32_t enter();
  void leave(uint32_t entered);
  // Waits until no thread is inside. The caller must prevent new entries. One thread at a time may
  // wait.
  void wait_until_left();
  // Returns true if threads of the parent were inside during the fork, and none has entered since.
  bool abandoned() const;

 private:
  std::atomic<uint64_t> word_{
      0};  // from the high bits: generation (32), a thread waits (1), users (31)
  std::atomic<uint32_t> left_{0};  // changes when a thread leaves while another waits
};

// Keeps forever an object that can be neither used nor destroyed.
void leave_behind(std::shared_ptr<void> object);

// An object with one instance per process. A forked child makes a new one. The instance of its
// parent stays untouched, because threads that the child lacks may have been changing it.
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

  // Returns the object. A child's first call replaces it by make(parent's object), a
  // std::shared_ptr.
  template <class Make>
  T& get(Make make) {
    Node* node = current_.load(std::memory_order_acquire);
    if (node->generation == fork_generation()) return *node->object;
    auto fresh = std::make_unique<Node>(fork_generation(), make(*node->object));
    if (!current_.compare_exchange_strong(node, fresh.get()))
      return *node->object;  // another thread was first
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
