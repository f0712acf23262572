// How a failure inside the library becomes a status and a text at the C boundary.
#pragma once

#include <cstdint>
#include <string>

#include "ligerdsl/ligerdsl.h"
#include "runtime/status.h"

namespace ligerdsl::lib {

using runtime::fail;
using runtime::Status;

// Remembers the text for this thread's ligerdsl_last_error and returns the status.
ligerdsl_status_t set_last_error(Status status, const char* text) noexcept;
const char* last_error() noexcept;

// Translates the exception being handled; call it inside a catch block.
ligerdsl_status_t translate_exception(const char* operation) noexcept;

// Runs the body of a C function: no exception leaves it.
template <class Body>
ligerdsl_status_t guarded(const char* operation, Body&& body) noexcept {
  try {
    body();
    return LIGERDSL_SUCCESS;
  } catch (...) {
    return translate_exception(operation);
  }
}

// Fails when a pointer that must be there is null.
inline void require_pointer(const void* pointer, const char* name) {
  if (!pointer) fail(Status::invalid_null_pointer, std::string("`") + name + "` is NULL");
}

}  // namespace ligerdsl::lib
