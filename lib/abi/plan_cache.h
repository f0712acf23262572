// Plans that a context made for the one-call form. The cache keeps the most recently used plans.
//
// A plan that is dropped during a call lives until the call ends. Its launches and graphs that
// recorded them stay valid, because the device keeps the code.
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

  // Returns the plan, or null. Does not allocate.
  std::shared_ptr<Plan> find(std::string_view key);
  // Adds the plan and returns it, or returns the plan that another thread added first.
  std::shared_ptr<Plan> add(std::string_view key, std::shared_ptr<Plan> plan);
  void clear();
  size_t size();

  // Returns the number of uses so far: successful finds and additions. A plan whose latest use is
  // one of the last most_ / kOften uses is not dropped soon. So a repeated call need not look it
  // up.
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
  Entries entries_;  // most recently used first
  std::unordered_map<std::string_view, Entries::iterator> by_key_;
};

}  // namespace ligerdsl::lib
