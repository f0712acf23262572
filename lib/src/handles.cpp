#include "lib/src/handles.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/src/failure.h"

namespace ligerdsl::lib {

namespace {

constexpr uint32_t kChunkBits = 10, kIndexBits = 20;
constexpr uint32_t kChunk = 1u << kChunkBits, kMaxChunks = 1u << (kIndexBits - kChunkBits);
static_assert(sizeof(void*) == 8, "handles are 64-bit numbers");

struct Slot {
  std::atomic<uint64_t> tag{0};  // the live handle's number; 0 = free
  void* object = nullptr;
  uint64_t generation = 0;
};

// Never destroyed: handles may be used by other objects' destructors at exit.
struct Table {
  std::mutex mutex;
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
    if (used == (1u << kIndexBits)) fail(Status::out_of_host_memory, "more than a million handles are alive");
    if ((used & (kChunk - 1)) == 0) chunks[used >> kChunkBits].store(new Slot[kChunk], std::memory_order_release);
    free.reserve(used + 1);  // so that remove_handle cannot fail
    return used++;
  }
};

Table& table() {
  static Table* const instance = new Table;
  return *instance;
}

// Bits from the low end: kind (4), index (20), generation (40).
uint64_t number(HandleKind kind, uint32_t index, uint64_t generation) {
  return static_cast<uint64_t>(kind) | (static_cast<uint64_t>(index) << 4) | (generation << 24);
}

Slot* live_slot(HandleKind kind, const void* handle) noexcept {
  const auto tag = reinterpret_cast<uint64_t>(handle);
  if ((tag & 15) != static_cast<uint64_t>(kind)) return nullptr;
  Slot* slot = table().slot(static_cast<uint32_t>(tag >> 4) & ((1u << kIndexBits) - 1));
  return slot && slot->tag.load(std::memory_order_acquire) == tag ? slot : nullptr;
}

}  // namespace

void* make_handle(HandleKind kind, void* object) {
  const std::lock_guard lock(table().mutex);
  const uint32_t index = table().take();
  Slot* slot = table().slot(index);
  slot->object = object;
  const uint64_t tag = number(kind, index, ++slot->generation & ((uint64_t{1} << 40) - 1));
  slot->tag.store(tag, std::memory_order_release);
  return reinterpret_cast<void*>(tag);
}

void* find_handle(HandleKind kind, const void* handle) noexcept {
  const Slot* slot = live_slot(kind, handle);
  return slot ? slot->object : nullptr;
}

void* remove_handle(HandleKind kind, const void* handle) noexcept {
  const std::lock_guard lock(table().mutex);
  Slot* slot = live_slot(kind, handle);
  if (!slot) return nullptr;
  slot->tag.store(0, std::memory_order_release);
  table().free.push_back(static_cast<uint32_t>(reinterpret_cast<uint64_t>(handle) >> 4) & ((1u << kIndexBits) - 1));
  return slot->object;
}

void* require_handle(HandleKind kind, const void* handle, const char* name) {
  require_pointer(handle, name);
  if (void* object = find_handle(kind, handle)) return object;
  fail(Status::dead_handle,
       std::string("`") + name + "` is not a live handle: it was destroyed, or this library did not make it");
}

}  // namespace ligerdsl::lib
