// A kernel of a device that is not present. Plans that only record or store their kernels get it;
// it cannot run.
#pragma once

#include "runtime/kernel/kernel.h"
#include "runtime/system/status.h"

namespace ligerdsl::cli {

class UnloadedKernel final : public runtime::LoadedKernel {
 public:
  void launch(const uint64_t*, const runtime::Grid&, runtime::Stream) override {
    runtime::fail(runtime::Status::internal_error,
                  "a kernel was launched on a device that is not here");
  }
};

}  // namespace ligerdsl::cli
