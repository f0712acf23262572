// Per-thread cache of resolved calls.
//
// A training step repeats the same calls, usually with the same shapes but other memory. If a call
// has the description, dtypes, shapes and strides of a recent call, it reuses that call's plan,
// bound tensors, number of rows and workspace size. Only conditions on addresses are checked: no
// NULL, no misaligned address, and no new overlap between outputs and other tensors. A call that
// fails one of these goes through the full checks, which report the error. Numeric arguments are
// not cached; every call checks and reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/abi/bind.h"
#include "lib/abi/op_info.h"

namespace ligerdsl::lib {

class Plan;

// Key of a call: the values that are compared with a cached call. It is read from structs that are
// not checked yet.
class CallKey {
 public:
  static constexpr size_t kMostWords = 128;

  // `handle` is the context, or the plan if there is no desc; `given` is the args struct. The key
  // is empty for calls that are not cached: with structs of another release, a list of tensors, a
  // tensor without elements, or too many words.
  CallKey() = default;
  CallKey(const OpInfo& info, const void* handle, const void* desc, const void* given);

  explicit operator bool() const { return used_ > 0; }
  size_t words() const { return used_; }
  const uint64_t* data() const { return words_; }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t* add_struct(uint64_t* at, const void* given, size_t size, size_t compared);
  uint64_t* add_tensor(uint64_t* at, const ligerdsl_tensor_t* tensor);
  size_t room(const uint64_t* at) const { return static_cast<size_t>(words_ + kMostWords - at); }

  size_t used_ = 0;
  uint64_t hash_ = 0;
  uint64_t words_[kMostWords];
};

class RecentCalls {
 public:
  // One cached call, without addresses and numeric arguments.
  struct Entry {
    size_t words = 0;
    uint64_t key[CallKey::kMostWords];
    std::weak_ptr<const Plan> plan;  // weak, because a context drops unused plans
    uint64_t use;                    // PlanCache::uses() when this plan was looked up
    Call call;
    size_t workspace;
    int64_t spans[kMaxTensors];  // bytes that a tensor spans; 0: not passed
    bool in_use = false;         // an unfinished call uses it; a callback may make a nested call

    // Binds the arguments' addresses. Returns false if the call needs the full checks.
    bool place(const OpInfo& info, const void* args);
  };

  // Returns this thread's cache. Returns null if there is none and `make` is false, or if the
  // thread is ending.
  static RecentCalls* of_this_thread(bool make) noexcept;

  // Returns null if no such call is cached.
  Entry* find(const CallKey& key);
  // Replaces the entry of the set that was used least recently.
  void remember(const CallKey& key, const Plan& plan, const Call& call, size_t workspace,
                uint64_t use);

 private:
  static constexpr size_t kSets = 32,
                          kWays = 2;  // a training step has some tens of different calls
  struct Set {
    Entry entries[kWays];
    uint8_t oldest = 0;
  };

  Set& set_of(const CallKey& key);

  Set sets_[kSets];
};

}  // namespace ligerdsl::lib
