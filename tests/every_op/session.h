// The device of a test program, and access to functions of the CUDA driver.
#pragma once

#include <cstdint>
#include <string>

#include "ligerdsl/ligerdsl.h"

namespace ligerdsl::test {

// Throws std::runtime_error with the library's error text if the call failed.
void must(ligerdsl_status_t status, const char* what);

struct Session {
  bool cuda = false;      // a GPU, real or emulated
  bool emulated = false;  // an emulated GPU (tests/support/emulated_launch.cpp)
  int64_t rows = 67;      // row count of the small cases
  std::string why_not;    // reason why the device is missing, or empty

  bool real_gpu() const { return cuda && !emulated; }
  ligerdsl_device_t device() const { return {cuda ? LIGERDSL_CUDA : LIGERDSL_CPU, 0}; }
};
const Session& session();

// A library context of the session's device.
class ContextHandle {
 public:
  ContextHandle();
  ~ContextHandle() { ligerdsl_context_destroy(handle_); }
  ContextHandle(const ContextHandle&) = delete;
  ContextHandle& operator=(const ContextHandle&) = delete;
  operator ligerdsl_context_t() const { return handle_; }

 private:
  ligerdsl_context_t handle_ = nullptr;
};

// A non-blocking stream of the GPU, or null on a CPU.
class StreamHandle {
 public:
  explicit StreamHandle(ligerdsl_context_t context);
  ~StreamHandle();
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;
  operator ligerdsl_stream_t() const { return handle_; }

 private:
  ligerdsl_context_t context_;
  ligerdsl_stream_t handle_ = nullptr;
};

// Memory of the session's device. On a CPU, `sparse` memory is committed only where it is written.
class Memory {
 public:
  Memory(ligerdsl_context_t context, size_t bytes, bool sparse = false);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  ligerdsl_context_t context_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  bool mapped_ = false;
};

// Returns the address of a function of the CUDA driver. Throws if it is missing.
void* driver_symbol(const char* name);
template <class F>
F* driver_function(const char* name) {
  return reinterpret_cast<F*>(driver_symbol(name));
}

// Reads --device=cpu|cuda and --rows=N, and finds the compiler library. Returns 0, or the exit code
// if the tests cannot run.
int start_session(int argc, char** argv);

}  // namespace ligerdsl::test
