// A kernel of a device that is not here: what plans get that are made to see or store their kernels, and never run.
#pragma once

#include "runtime/kernel/kernel.h"
#include "runtime/system/status.h"

namespace ligerdsl::cli {

class UnloadedKernel final : public runtime::LoadedKernel {
 public:
  void launch(const uint64_t*, const runtime::Grid&, runtime::Stream) override {
    runtime::fail(runtime::Status::internal_error, "a kernel was launched on a device that is not here");
  }
};

}  // namespace ligerdsl::cli
