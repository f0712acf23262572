#include "lib/abi/failure.h"

#include <new>

#include "ligerdsl/dsl/error.h"

namespace ligerdsl::lib {

namespace {

// This thread's message. At thread exit its destructor runs, and a failure in a later destructor
// reports a fixed text.
thread_local bool closed = false;
thread_local const char* fallback = "";
struct Message {
  std::string text;
  ~Message() {
    closed = true;
    fallback = "a call failed while its thread was exiting; its message is not available";
  }
};
thread_local Message message;

void remember(const char* operation, const char* text) noexcept {
  if (closed) return;
  try {
    message.text.assign(operation ? operation : "");
    if (operation) message.text.append(": ");
    message.text.append(text);
    fallback = nullptr;
  } catch (...) {
    fallback = "out of host memory while reporting an error";
  }
}
}  // namespace

const char* last_error() noexcept {
  return fallback ? fallback : message.text.c_str();
}

ligerdsl_status_t translate_exception(const char* operation) noexcept {
  try {
    throw;
  } catch (const runtime::Error& error) {
    remember(operation, error.what());
    return static_cast<ligerdsl_status_t>(error.status());
  } catch (const ligerdsl::Error& error) {
    remember(operation, error.what());
    return LIGERDSL_INTERNAL_ERROR;  // recording of a library kernel failed
  } catch (const std::bad_alloc&) {
    remember(operation, "out of host memory");
    return LIGERDSL_OUT_OF_HOST_MEMORY;
  } catch (const std::exception& error) {
    remember(operation, error.what());
    return LIGERDSL_INTERNAL_ERROR;
  } catch (...) {
    remember(operation, "an exception of unknown type");
    return LIGERDSL_INTERNAL_ERROR;
  }
}

}  // namespace ligerdsl::lib

using namespace ligerdsl::lib;

extern "C" {
const char* ligerdsl_status_name(ligerdsl_status_t status) {
  return ligerdsl::runtime::status_name(status);
}
const char* ligerdsl_last_error(void) {
  return last_error();
}
}
