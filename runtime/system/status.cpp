#include "runtime/system/status.h"

namespace ligerdsl::runtime {

const char* status_name(int32_t status) {
  switch (static_cast<Status>(status)) {
    case Status::success:
      return "SUCCESS";
    case Status::not_initialized:
      return "NOT_INITIALIZED";
    case Status::abi_mismatch:
      return "ABI_MISMATCH";
    case Status::forked_process:
      return "FORKED_PROCESS";
    case Status::dead_handle:
      return "DEAD_HANDLE";
    case Status::invalid_argument:
      return "INVALID_ARGUMENT";
    case Status::invalid_null_pointer:
      return "INVALID_NULL_POINTER";
    case Status::invalid_shape:
      return "INVALID_SHAPE";
    case Status::invalid_dtype:
      return "INVALID_DTYPE";
    case Status::invalid_device:
      return "INVALID_DEVICE";
    case Status::invalid_alias:
      return "INVALID_ALIAS";
    case Status::invalid_misaligned:
      return "INVALID_MISALIGNED";
    case Status::invalid_label:
      return "INVALID_LABEL";
    case Status::workspace_too_small:
      return "WORKSPACE_TOO_SMALL";
    case Status::invalid_program:
      return "INVALID_PROGRAM";
    case Status::invalid_bounds:
      return "INVALID_BOUNDS";
    case Status::not_supported:
      return "NOT_SUPPORTED";
    case Status::no_device:
      return "NO_DEVICE";
    case Status::driver_too_old:
      return "DRIVER_TOO_OLD";
    case Status::arch_not_supported:
      return "ARCH_NOT_SUPPORTED";
    case Status::capture_unsafe:
      return "CAPTURE_UNSAFE";
    case Status::internal_error:
      return "INTERNAL_ERROR";
    case Status::compile_failed:
      return "COMPILE_FAILED";
    case Status::cache_error:
      return "CACHE_ERROR";
    case Status::out_of_host_memory:
      return "OUT_OF_HOST_MEMORY";
    case Status::execution_failed:
      return "EXECUTION_FAILED";
    case Status::out_of_device_memory:
      return "OUT_OF_DEVICE_MEMORY";
    case Status::driver_shutdown:
      return "DRIVER_SHUTDOWN";
    case Status::sticky_device_error:
      return "STICKY_DEVICE_ERROR";
  }
  return "UNKNOWN_STATUS";
}

void fail(Status status, const std::string& message) {
  throw Error(status, message);
}

}  // namespace ligerdsl::runtime
