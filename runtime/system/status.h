// Status numbers of the library, and the exception that carries a status within the library.
//
// The numbers are the same as in the public C header. number / 1000 is the category: 1 state, 2
// caller's argument, 3 not supported, 4 compiler or internal, 5 execution. A number is never
// reused. No exception crosses the C interface.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace ligerdsl::runtime {

enum class Status : int32_t {
  success = 0,
  not_initialized = 1000,
  abi_mismatch = 1001,
  forked_process = 1002,
  dead_handle = 1003,
  invalid_argument = 2000,
  invalid_null_pointer = 2001,
  invalid_shape = 2002,
  invalid_dtype = 2003,
  invalid_device = 2004,
  invalid_alias = 2005,
  invalid_misaligned = 2006,
  invalid_label = 2007,
  workspace_too_small = 2008,
  invalid_program = 2009,
  invalid_bounds = 2010,
  not_supported = 3000,
  no_device = 3001,
  driver_too_old = 3002,
  arch_not_supported = 3003,
  capture_unsafe = 3004,
  internal_error = 4000,
  compile_failed = 4001,
  cache_error = 4002,
  out_of_host_memory = 4003,
  execution_failed = 5000,
  out_of_device_memory = 5001,
  driver_shutdown = 5002,
  sticky_device_error = 5003,
};

// Returns the name of a status: "SUCCESS", "NO_DEVICE", ...; "UNKNOWN_STATUS" for other numbers.
// Never null.
const char* status_name(int32_t status);

class Error : public std::runtime_error {
 public:
  Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  Status status() const { return status_; }

 private:
  Status status_;
};

[[noreturn]] void fail(Status status, const std::string& message);

}  // namespace ligerdsl::runtime
