// What this thread's recent calls have found out, for calls that are like them.
//
// A trainer makes the same calls in every step: most often with other memory, never with other shapes. A call whose
// description, types, shapes and strides are those of a recent one has its plan, its bound tensors, its rows and the
// size of its workspace already. What remains is what addresses decide: none is NULL or misaligned, and outputs share
// no memory that they shared not before. A call that is not plainly right in these goes the whole way, which says what
// is wrong. Numbers among the arguments are not remembered; they are checked and read in every call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/src/bind.h"
#include "lib/src/op_info.h"

namespace ligerdsl::lib {

class Plan;

// What of a call is compared. Made of structs that nobody has checked.
class CallKey {
 public:
  static constexpr size_t kMostWords = 128;

  // `handle`: of the context, or of the plan, where there is no desc. `given`: args. None where such a call is not
  // remembered: structs of another release, lists of tensors, tensors without elements, more than fits.
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
  // One remembered call: complete but for its arguments' addresses and numbers.
  struct Entry {
    size_t words = 0;
    uint64_t key[CallKey::kMostWords];
    std::weak_ptr<const Plan> plan;  // a context drops those that are not used
    uint64_t use;                    // of the context's plans, when this one was looked for (PlanCache::uses)
    Call call;
    size_t workspace;
    int64_t spans[kMaxTensors];  // bytes that a tensor reaches; 0: it is not passed
    bool in_use = false;         // by a call of this thread, from which the host was called back

    // Binds the arguments' addresses. False: not plainly right.
    bool place(const OpInfo& info, const void* args);
  };

  // This thread's; null where it has none and `make` is not set, or its time is over.
  static RecentCalls* of_this_thread(bool make) noexcept;

  // Null: no such call.
  Entry* find(const CallKey& key);
  // Takes the place of one that was not used for longer.
  void remember(const CallKey& key, const Plan& plan, const Call& call, size_t workspace, uint64_t use);

 private:
  static constexpr size_t kSets = 32, kWays = 2;  // a trainer's step has some tens of kinds of calls
  struct Set {
    Entry entries[kWays];
    uint8_t oldest = 0;
  };

  Set& set_of(const CallKey& key);

  Set sets_[kSets];
};

}  // namespace ligerdsl::lib
