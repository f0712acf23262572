#include "lib/src/failure.h"

#include <new>

#include "ligerdsl/dsl/error.h"

namespace ligerdsl::lib {

namespace {
// A plain pointer, so that a thread's exit runs no destructor of ours after the library's own objects are gone.
thread_local std::string* message = nullptr;
thread_local const char* fallback = "";

void remember(const char* operation, const char* text) noexcept {
  try {
    if (!message) message = new std::string;
    message->assign(operation ? operation : "");
    if (operation) message->append(": ");
    message->append(text);
    fallback = nullptr;
  } catch (...) {
    fallback = "out of host memory while reporting an error";
  }
}
}  // namespace

ligerdsl_status_t set_last_error(Status status, const char* text) noexcept {
  remember(nullptr, text);
  return static_cast<ligerdsl_status_t>(status);
}

const char* last_error() noexcept {
  return fallback ? fallback : message->c_str();
}

ligerdsl_status_t translate_exception(const char* operation) noexcept {
  try {
    throw;
  } catch (const runtime::Error& error) {
    remember(operation, error.what());
    return static_cast<ligerdsl_status_t>(error.status());
  } catch (const ligerdsl::Error& error) {
    remember(operation, error.what());
    return LIGERDSL_INTERNAL_ERROR;  // a kernel of ours does not record
  } catch (const std::bad_alloc&) {
    remember(operation, "out of host memory");
    return LIGERDSL_OUT_OF_HOST_MEMORY;
  } catch (const std::exception& error) {
    remember(operation, error.what());
    return LIGERDSL_INTERNAL_ERROR;
  } catch (...) {
    remember(operation, "unknown exception");
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
