// Checks that LIGERDSL_VALIDATE and LIGERDSL_CTX_VALIDATE add to a call: wait for it and inspect
// its results.
#pragma once

#include <functional>
#include <span>

#include "lib/abi/bind.h"

namespace ligerdsl::lib {

class Context;

struct Watched {
  const char* name;
  const BoundTensor* tensor;
  bool read, written;
};

// Runs the call and waits for it. Throws
// - INVALID_LABEL or INVALID_BOUNDS if an index was out of bounds,
// - EXECUTION_FAILED if a written tensor holds a NaN although all tensors that were read are
//   finite,
// - any error of the wait itself.
// While the stream is being captured, the call runs without checks.
void run_validated(Context& context, std::span<const Watched> tensors, runtime::Stream stream,
                   const std::function<void()>& run);

}  // namespace ligerdsl::lib
