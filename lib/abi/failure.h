// Translation of failures inside the library into a status and a text at the C boundary.
#pragma once

#include <cstdint>
#include <string>

#include "ligerdsl/ligerdsl.h"
#include "runtime/system/status.h"

namespace ligerdsl::lib {

using runtime::fail;
using runtime::Status;

// Translates the exception being handled into a status and stores its text for this thread's
// ligerdsl_last_error(). Call it inside a catch block.
ligerdsl_status_t translate_exception(const char* operation) noexcept;
const char* last_error() noexcept;

// Runs the body of a C function and lets no exception escape.
template <class Body>
ligerdsl_status_t guarded(const char* operation, Body&& body) noexcept {
  try {
    body();
    return LIGERDSL_SUCCESS;
  } catch (...) {
    return translate_exception(operation);
  }
}

// Fails if a required pointer is null.
inline void require_pointer(const void* pointer, const char* name) {
  if (!pointer) fail(Status::invalid_null_pointer, std::string("`") + name + "` is NULL");
}

}  // namespace ligerdsl::lib
