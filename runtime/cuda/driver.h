// The CUDA driver, loaded by dlopen. Builds and runs on a CPU need neither a toolkit nor a driver.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/kernel/cuda_api.h"
#include "runtime/system/status.h"

namespace ligerdsl::runtime {

namespace cuda {
// The driver's functions. An open Driver has all of them.
struct Api {
#define LIGERDSL_DECLARE(member, symbol, parameters) Result(*member) parameters = nullptr;
  LIGERDSL_DRIVER_FUNCTIONS(LIGERDSL_DECLARE)
#undef LIGERDSL_DECLARE
};
}  // namespace cuda

struct GpuInfo {
  int32_t ordinal = 0;
  std::string name;
  int32_t major = 0, minor = 0;  // compute capability
  std::string arch;              // the compiler's name of the target: "sm_90a", "sm_80", ...
  int64_t memory_bytes = 0;
  int32_t multiprocessors = 0;
  int32_t l2_bytes = 0;
  int32_t max_shared_per_block = 0;  // bytes; limit for kernels that request more than 48 KiB
};

class Driver {
 public:
  // Loads `path` and initialises the driver. Throws DRIVER_TOO_OLD, FORKED_PROCESS, or NO_DEVICE
  // (library missing, stub driver, cuInit fails, no device). The message of NO_DEVICE names the
  // reason and a remedy.
  static std::shared_ptr<const Driver> open(const std::string& path);

  // Returns the process's driver, from LIGERDSL_LIBCUDA, else libcuda.so.1. The first successful
  // call opens it; it is never closed.
  static std::shared_ptr<const Driver> shared();

  const cuda::Api& api() const { return api_; }
  const std::string& path() const { return path_; }
  int32_t version() const { return version_; }          // as cuDriverGetVersion: 13000 for 13.0
  int32_t ptx_version() const { return ptx_version_; }  // highest accepted PTX version, times ten
  int32_t device_count() const { return device_count_; }
  GpuInfo device(int32_t ordinal) const;  // throws INVALID_DEVICE, ARCH_NOT_SUPPORTED

  // Throws the Error for `result`; `what` names the operation. Does nothing on success.
  void check(cuda::Result result, const char* what) const {
    if (result != cuda::success) raise(result, what);
  }
  // Throws the Error for `result`. Appends `detail`, such as the assembler's log, to the message.
  [[noreturn]] void raise(cuda::Result result, const char* what,
                          const std::string& detail = "") const;

 private:
  Driver() = default;

  cuda::Api api_;
  std::string path_;
  int32_t version_ = 0, ptx_version_ = 0, device_count_ = 0;
};

// Returns the PTX version of a driver: 12040 -> 84, 12060 -> 85, 13000 -> 90. Returns 0 for drivers
// before CUDA 11.
int32_t ptx_version_of_driver(int32_t driver_version);

Status status_of_result(cuda::Result result);

// Returns true in a child that was forked after its parent had begun to initialise a driver. Every
// CUDA call fails in such a child.
bool forked_after_init();
void refuse_after_fork();  // throws FORKED_PROCESS in such a child

// A retained primary context of a device. Calls that need it must be inside a Scope.
class PrimaryContext {
 public:
  PrimaryContext(std::shared_ptr<const Driver> driver, int32_t ordinal);
  ~PrimaryContext();  // releases the context, except in a forked child
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  // Makes the context current for its lifetime and then restores the caller's context. Throws
  // FORKED_PROCESS in a forked child. Costs one driver call if the context is current already, else
  // three.
  class Scope {
   public:
    explicit Scope(const PrimaryContext& context);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const cuda::Api& api_;
    bool pushed_ = false;
  };

  // A Scope that also sets this thread's stream-capture mode to relaxed. Loading a module or
  // allocating memory then does not break a capture in progress.
  class RelaxedScope {
   public:
    explicit RelaxedScope(const PrimaryContext& context);
    ~RelaxedScope();

   private:
    Scope scope_;
    const cuda::Api& api_;
    int mode_;
  };

  const Driver& driver() const { return *driver_; }
  const cuda::Api& api() const { return driver_->api(); }
  const GpuInfo& info() const { return info_; }

 private:
  std::shared_ptr<const Driver> driver_;
  GpuInfo info_;
  cuda::Device device_ = 0;
  cuda::Context context_ = nullptr;
};

}  // namespace ligerdsl::runtime
