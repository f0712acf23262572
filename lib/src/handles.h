// Handles of the C ABI: numbers in the clothes of pointers, so that a dead or foreign one is noticed without following
// it.
//
// A handle holds a slot's index, its generation and its kind. Slots are never freed; a lookup compares the whole number
// with the slot's current one and takes no lock.
#pragma once

#include <cstdint>

namespace ligerdsl::lib {

enum class HandleKind : uint8_t { context = 1, plan = 2, kernel = 3 };

// Publishes the object under a new handle, never null. Throws OUT_OF_HOST_MEMORY beyond a million live handles.
void* make_handle(HandleKind kind, void* object);

// The object, or null when the handle is dead, foreign or of another kind.
void* find_handle(HandleKind kind, const void* handle) noexcept;

// Withdraws the handle and returns its object; null when there is none.
void* remove_handle(HandleKind kind, const void* handle) noexcept;

// The object. Throws INVALID_NULL_POINTER or DEAD_HANDLE, naming the argument.
void* require_handle(HandleKind kind, const void* handle, const char* name);

}  // namespace ligerdsl::lib
