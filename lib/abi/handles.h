// Handles of the C ABI are numbers stored in pointers. A dead or foreign handle is detected without
// dereferencing it.
//
// A handle holds a slot's index, its generation and its kind. Slots are never freed. A lookup
// compares the handle with the number of the slot's live handle, and takes no lock. A call counts
// as a user of its handles, and a thread that destroys a handle waits for its users.
#pragma once

#include <cstdint>

namespace ligerdsl::lib {

enum class HandleKind : uint8_t { context = 1, plan = 2, kernel = 3 };

// Publishes the object under a new handle, which is never null. Throws OUT_OF_HOST_MEMORY for more
// than a million live handles.
void* make_handle(HandleKind kind, void* object);

// Invalidates the handle, waits for calls of other threads that use it, and returns its object,
// which the caller destroys. Returns null if
// - the handle is dead, or
// - a call of this thread uses it, as when a callback ends the process. Waiting would deadlock, so
//   the object is never destroyed.
void* remove_handle(HandleKind kind, const void* handle) noexcept;

struct Slot;

// Keeps a handle's object alive while a call uses it.
class HandleUse {
 public:
  // Throws INVALID_NULL_POINTER or DEAD_HANDLE, naming the argument.
  HandleUse(HandleKind kind, const void* handle, const char* name);
  ~HandleUse();
  HandleUse(const HandleUse&) = delete;
  HandleUse& operator=(const HandleUse&) = delete;

  void* object() const { return object_; }

 private:
  friend bool in_use_by_this_thread(const Slot& slot) noexcept;
  Slot* slot_;
  void* object_ = nullptr;
  uint32_t entered_ = 0;
  HandleUse* outer_ = nullptr;  // use of a handle by the same thread that began before this one
};

}  // namespace ligerdsl::lib
