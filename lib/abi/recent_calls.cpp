#include "lib/abi/recent_calls.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "lib/abi/plan.h"
#include "lib/abi/structs.h"

namespace ligerdsl::lib {

namespace {

constexpr int kMostRank = 8;                         // largest rank of a caller's tensor
constexpr uint64_t kMostOffset = uint64_t{1} << 62;  // bytes
constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;        // odd multiplier of the hash

// At thread exit the owner's destructor may run before a later call, which must not use the cache
// then. The variables `closed` and `own` have no destructor, because the first access to a
// thread_local with a destructor allocates.
thread_local bool closed = false;
thread_local RecentCalls* own = nullptr;
struct Owner {
  std::unique_ptr<RecentCalls> calls;
  ~Owner() { closed = true, own = nullptr; }
};
thread_local Owner owner;

const std::byte* address_of(const ligerdsl_tensor_t& tensor) {
  return reinterpret_cast<const std::byte*>(reinterpret_cast<uintptr_t>(tensor.data) +
                                            tensor.byte_offset);
}

}  // namespace

// Appends the first `compared` bytes of a struct of this release. Returns null for a struct of
// another release, whose pointers must not be followed.
uint64_t* CallKey::add_struct(uint64_t* at, const void* given, size_t size, size_t compared) {
  if (!given) return nullptr;
  const size_t words = (compared + sizeof(uint64_t) - 1) / sizeof(uint64_t);
  if (!is_of_this_release(given, size) || words > room(at)) return nullptr;
  at[words - 1] = 0;  // the bytes may end within the last word
  std::memcpy(at, given, compared);
  return at + words;
}

// Appends shape, strides, dtype and device. Returns null for a tensor whose calls are not cached.
uint64_t* CallKey::add_tensor(uint64_t* at, const ligerdsl_tensor_t* tensor) {
  if (room(at) < 2 + 2 * kMostRank) return nullptr;
  if (!tensor) {
    *at = 0;
    return at + 1;
  }
  const ligerdsl_tensor_t& t = *tensor;
  if (t.ndim < 0 || t.ndim > kMostRank || (t.ndim > 0 && !t.shape)) return nullptr;
  uint32_t dtype;
  static_assert(sizeof dtype == sizeof t.dtype && sizeof(uint64_t) == sizeof t.device);
  std::memcpy(&dtype, &t.dtype, sizeof dtype);
  const uint64_t rank = (static_cast<uint64_t>(t.ndim) << 1 | (t.strides != nullptr)) + 1;  // not 0
  *at++ = rank << 32 | dtype;
  std::memcpy(at++, &t.device, sizeof t.device);
  for (int i = 0; i < t.ndim; ++i) {
    if (t.shape[i] <= 0) return nullptr;
    *at++ = static_cast<uint64_t>(t.shape[i]);
  }
  for (int i = 0; t.strides && i < t.ndim; ++i) *at++ = static_cast<uint64_t>(t.strides[i]);
  return at;
}

CallKey::CallKey(const OpInfo& info, const void* handle, const void* desc, const void* given) {
  if (info.list_offset >= 0 || info.aliases.size() > 64) return;
  uint64_t* at = words_;
  *at++ = reinterpret_cast<uintptr_t>(&info);
  *at++ = reinterpret_cast<uintptr_t>(handle);
  if (desc) at = add_struct(at, desc, info.desc_size, info.desc_size);
  if (at) at = add_struct(at, given, info.args_size, kHeaderBytes);
  if (!at) return;
  for (const TensorInfo& tensor : info.tensors) {
    at = add_tensor(at, read_tensor(given, tensor));
    if (!at) return;
  }
  // The description's meaning and the allowed overlaps depend on which arguments are the same
  // tensor.
  uint64_t same = 0;
  for (const AliasInfo& alias : info.aliases) {
    const ligerdsl_tensor_t* a = read_tensor(given, info.tensors[alias.output]);
    const ligerdsl_tensor_t* b = read_tensor(given, info.tensors[alias.input]);
    same = same << 1 | (a && b && address_of(*a) == address_of(*b));
  }
  if (room(at) == 0) return;
  *at++ = same;
  used_ = static_cast<size_t>(at - words_);
  for (size_t i = 0; i < used_; ++i) hash_ += words_[i] * (kOdd * (2 * i + 1));
}

bool RecentCalls::Entry::place(const OpInfo& info, const void* args) {
  const int n = static_cast<int>(info.tensors.size());
  for (int i = 0; i < n; ++i) {
    if (spans[i] == 0) continue;
    const ligerdsl_tensor_t& t = *read_tensor(args, info.tensors[i]);
    std::byte* const data = const_cast<std::byte*>(address_of(t));
    const auto align = static_cast<uintptr_t>(size_of(call.tensors[i].dtype));
    if (!t.data || t.byte_offset > kMostOffset || reinterpret_cast<uintptr_t>(data) % align != 0)
      return false;
    call.tensors[i].data = data;
  }
  call.args = args;
  for (int a = 0; a < n; ++a) {
    if (info.tensors[a].direction == Direction::in || spans[a] == 0) continue;
    const std::byte* const begin = call.tensors[a].data;
    for (int b = 0; b < n; ++b) {
      const std::byte* const other = call.tensors[b].data;
      if (b == a || spans[b] == 0 || begin + spans[a] <= other || other + spans[b] <= begin)
        continue;
      // The keys are equal, so these two tensors were also one tensor in the cached call, which was
      // allowed.
      const bool may_be =
          std::any_of(info.aliases.begin(), info.aliases.end(), [&](const AliasInfo& alias) {
            return (alias.output == a && alias.input == b) ||
                   (alias.output == b && alias.input == a);
          });
      if (begin != other || !may_be) return false;
    }
  }
  return true;
}

RecentCalls* RecentCalls::of_this_thread(bool make) noexcept {
  if (own || closed || !make) return own;
  owner.calls.reset(new (std::nothrow) RecentCalls);
  return own = owner.calls.get();
}

RecentCalls::Set& RecentCalls::set_of(const CallKey& key) {
  return sets_[key.hash() >> 32 & (kSets - 1)];
}

RecentCalls::Entry* RecentCalls::find(const CallKey& key) {
  Set& set = set_of(key);
  for (uint8_t way = 0; way < kWays; ++way) {
    Entry& entry = set.entries[way];
    if (entry.words != key.words() || entry.in_use) continue;
    if (std::memcmp(entry.key, key.data(), key.words() * sizeof(uint64_t)) != 0) continue;
    set.oldest = 1 - way;
    return &entry;
  }
  return nullptr;
}

void RecentCalls::remember(const CallKey& key, const Plan& plan, const Call& call, size_t workspace,
                           uint64_t use) {
  Entry* const same = find(key);
  Set& set = set_of(key);
  Entry& entry = same ? *same : set.entries[set.oldest];
  if (entry.in_use) return;
  if (!same) set.oldest = 1 - set.oldest;
  entry.words = key.words();
  std::copy_n(key.data(), key.words(), entry.key);
  entry.plan = plan.weak_from_this();
  entry.use = use;
  entry.call = call;
  entry.workspace = workspace;
  for (size_t i = 0; i < plan.info().tensors.size(); ++i)
    entry.spans[i] = call.tensors[i].present ? program::span_bytes(memory_of(call.tensors[i])) : 0;
}

}  // namespace ligerdsl::lib
