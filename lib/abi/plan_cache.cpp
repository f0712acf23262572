#include "lib/abi/plan_cache.h"

#include <iterator>
#include <mutex>
#include <utility>

namespace ligerdsl::lib {

std::shared_ptr<Plan> PlanCache::use(Entries::iterator entry) {
  uses_.fetch_add(1, std::memory_order_relaxed);
  entries_.splice(entries_.begin(), entries_, entry);
  return entry->plan;
}

std::shared_ptr<Plan> PlanCache::find(std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : use(found->second);
}

std::shared_ptr<Plan> PlanCache::add(std::string_view key, std::shared_ptr<Plan> plan) {
  Entries added, dropped;  // declared first, so destroyed after the lock is released
  added.push_back({std::string(key), std::move(plan)});
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = by_key_.try_emplace(added.front().key, added.begin());
  if (!is_new) return use(found->second);
  uses_.fetch_add(1, std::memory_order_relaxed);
  entries_.splice(entries_.begin(), added);
  if (entries_.size() > most_) {
    by_key_.erase(entries_.back().key);
    dropped.splice(dropped.begin(), entries_, std::prev(entries_.end()));
  }
  return entries_.front().plan;
}

void PlanCache::clear() {
  Entries dropped;
  const std::lock_guard lock(mutex_);
  by_key_.clear();
  dropped.swap(entries_);
}

size_t PlanCache::size() {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace ligerdsl::lib
