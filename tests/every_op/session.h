// The device of a test program, and the CUDA driver functions that a caller would use.
#pragma once

#include <cstdint>
#include <string>

#include "ligerdsl/ligerdsl.h"

namespace ligerdsl::test {

// Throws std::runtime_error with the library's text unless the call succeeded.
void must(ligerdsl_status_t status, const char* what);

struct Session {
  bool cuda = false;      // a GPU, or a fake one
  bool emulated = false;  // a fake GPU that runs PTX on the CPU (tests/support/emulated_cuda)
  int64_t rows = 67;      // rows of a small case
  std::string why_not;    // reason why there is no such device, else empty

  bool real_gpu() const { return cuda && !emulated; }
  ligerdsl_device_t device() const { return {cuda ? LIGERDSL_CUDA : LIGERDSL_CPU, 0}; }
};
const Session& session();

// A context of the session's device.
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

// A non-blocking stream of a GPU; null on a CPU.
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

// Device memory. On a CPU it is host memory, and `sparse` memory is committed only when written.
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

// Returns a function of the CUDA driver; throws if it is missing.
void* driver_symbol(const char* name);
template <class F>
F* driver_function(const char* name) {
  return reinterpret_cast<F*>(driver_symbol(name));
}

// Implements main(): reads --device=cpu|cuda and --rows=N and finds the compiler. Returns 0 or the
// exit code.
int start_session(int argc, char** argv);

}  // namespace ligerdsl::test
