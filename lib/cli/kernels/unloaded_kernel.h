// Kernel for a device that is not present. It cannot run. Plans that only record or store kernels
// get this object.
#pragma once

#include "runtime/kernel/kernel.h"
#include "runtime/system/status.h"

namespace ligerdsl::cli {

class UnloadedKernel final : public runtime::LoadedKernel {
 public:
  void launch(const uint64_t*, const runtime::Grid&, runtime::Stream) override {
    runtime::fail(runtime::Status::internal_error,
                  "a kernel was launched on a device that is not present");
  }
};

}  // namespace ligerdsl::cli
