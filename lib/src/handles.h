// Handles of the C ABI: numbers in the clothes of pointers, so that a dead or foreign one is noticed without following
// it.
//
// A handle holds a slot's index, its generation and its kind. Slots are never freed; a lookup compares the whole number
// with the slot's current one and takes no lock. A call counts as a user of its handles, and whoever destroys one waits
// for them.
#pragma once

#include <cstdint>

namespace ligerdsl::lib {

enum class HandleKind : uint8_t { context = 1, plan = 2, kernel = 3 };

// Publishes the object under a new handle, never null. Throws OUT_OF_HOST_MEMORY beyond a million live handles.
void* make_handle(HandleKind kind, void* object);

// Withdraws the handle, waits for the calls of other threads that use it, and returns its object, which is the caller's
// to destroy. Null when there is none, or when a call of this very thread uses it (a callback that ends the process):
// then nobody waits and the object is never destroyed.
void* remove_handle(HandleKind kind, const void* handle) noexcept;

struct Slot;

// What a call uses, for as long as this lives.
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
  HandleUse* outer_ = nullptr;  // of the same thread
};

}  // namespace ligerdsl::lib
