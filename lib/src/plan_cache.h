// The plans that a context made for the one-call form: those that were used last.
//
// A plan that is dropped while a call uses it lives until that call ends. What it launched, or what a graph recorded, stays right
// without it: code belongs to the device, which keeps it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/system/fork.h"

namespace ligerdsl::lib {

class Plan;

class PlanCache {
 public:
  explicit PlanCache(size_t most) : most_(most) {}

  // Null: none is kept. Takes no memory.
  std::shared_ptr<Plan> find(std::string_view key);
  // Returns the plan that is kept under the key: the one that was there, if another thread was faster.
  std::shared_ptr<Plan> add(std::string_view key, std::shared_ptr<Plan> plan);
  void clear();
  size_t size();

  // How often a plan was found or added so far. One that was used less than a quarter of what is kept ago
  // need not be looked for: it is far from being dropped.
  uint64_t uses() const { return uses_.load(std::memory_order_relaxed); }
  bool is_recent(uint64_t use) const { return uses() - use < most_ / kOften; }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<Plan> plan;
  };
  using Entries = std::list<Entry>;
  std::shared_ptr<Plan> use(Entries::iterator entry);

  static constexpr size_t kOften = 4;
  const size_t most_;
  std::atomic<uint64_t> uses_{0};
  runtime::ForkMutex mutex_;
  Entries entries_;  // the one used last in front
  std::unordered_map<std::string_view, Entries::iterator> by_key_;
};

}  // namespace ligerdsl::lib
