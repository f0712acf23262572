#include "lib/abi/handles.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "lib/abi/failure.h"
#include "runtime/system/fork.h"

namespace ligerdsl::lib {

struct Slot {
  std::atomic<uint64_t> tag{0};  // number of the live handle; 0: the slot is free
  void* object = nullptr;
  uint64_t generation = 0;
  runtime::UseCount users;
};

namespace {

constexpr uint32_t kChunkBits = 10, kIndexBits = 20;
constexpr uint32_t kChunk = 1u << kChunkBits, kMaxChunks = 1u << (kIndexBits - kChunkBits);
static_assert(sizeof(void*) == 8, "handles are 64-bit numbers");

// The table is never destroyed, because destructors of other objects may use handles at exit.
struct Table {
  runtime::ForkMutex mutex;
  std::array<std::atomic<Slot*>, kMaxChunks> chunks{};
  std::vector<uint32_t> free;
  uint32_t used = 0;

  Slot* slot(uint32_t index) {
    Slot* chunk = chunks[index >> kChunkBits].load(std::memory_order_acquire);
    return chunk ? chunk + (index & (kChunk - 1)) : nullptr;
  }

  uint32_t take() {
    if (!free.empty()) {
      const uint32_t index = free.back();
      free.pop_back();
      return index;
    }
    if (used == (1u << kIndexBits))
      fail(
          Status::out_of_host_memory,
          "1048576 handles are alive, the largest number; destroy contexts, plans and kernels that "
          "are no longer used");
    if ((used & (kChunk - 1)) == 0)
      chunks[used >> kChunkBits].store(new Slot[kChunk], std::memory_order_release);
    free.reserve(used + 1);  // reserves a place now, so that remove_handle cannot fail
    return used++;
  }
};

Table& table() {
  static Table* const instance = new Table;
  return *instance;
}

// Bits, lowest first: kind (4), index (20), generation (40).
uint64_t number(HandleKind kind, uint32_t index, uint64_t generation) {
  return static_cast<uint64_t>(kind) | (static_cast<uint64_t>(index) << 4) | (generation << 24);
}

// Returns the slot of a handle, which may be dead.
Slot* slot_of(HandleKind kind, uint64_t tag) noexcept {
  if ((tag & 15) != static_cast<uint64_t>(kind)) return nullptr;
  return table().slot(static_cast<uint32_t>(tag >> 4) & ((1u << kIndexBits) - 1));
}

thread_local HandleUse* innermost = nullptr;

}  // namespace

bool in_use_by_this_thread(const Slot& slot) noexcept {
  const HandleUse* use = innermost;
  while (use && use->slot_ != &slot) use = use->outer_;
  return use;
}

void* make_handle(HandleKind kind, void* object) {
  const std::lock_guard lock(table().mutex);
  const uint32_t index = table().take();
  Slot* slot = table().slot(index);
  slot->object = object;
  const uint64_t tag = number(kind, index, ++slot->generation & ((uint64_t{1} << 40) - 1));
  slot->tag.store(tag);
  return reinterpret_cast<void*>(tag);
}

void* remove_handle(HandleKind kind, const void* handle) noexcept {
  auto tag = reinterpret_cast<uint64_t>(handle);
  Slot* slot = slot_of(kind, tag);
  if (!slot || !slot->tag.compare_exchange_strong(tag, 0)) return nullptr;
  // From here on, a call that looks up the slot finds a dead handle.
  if (in_use_by_this_thread(*slot)) return nullptr;
  slot->users.wait_until_left();
  void* object = slot->object;
  const std::lock_guard lock(table().mutex);
  table().free.push_back(static_cast<uint32_t>(reinterpret_cast<uint64_t>(handle) >> 4) &
                         ((1u << kIndexBits) - 1));
  return object;
}

HandleUse::HandleUse(HandleKind kind, const void* handle, const char* name) {
  require_pointer(handle, name);
  const auto tag = reinterpret_cast<uint64_t>(handle);
  slot_ = slot_of(kind, tag);
  if (slot_) {
    entered_ = slot_->users.enter();
    if (slot_->tag.load() == tag) {
      object_ = slot_->object;
      outer_ = std::exchange(innermost, this);
      return;
    }
    slot_->users.leave(entered_);
  }
  fail(Status::dead_handle,
       std::string("`") + name +
           "` is not a live handle: it was destroyed, or this library did not make it");
}

HandleUse::~HandleUse() {
  innermost = outer_;
  slot_->users.leave(entered_);
}

}  // namespace ligerdsl::lib
