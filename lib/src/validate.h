// What LIGERDSL_VALIDATE and LIGERDSL_CTX_VALIDATE add to a call: it is waited for and looked at.
#pragma once

#include <functional>
#include <span>

#include "lib/src/bind.h"

namespace ligerdsl::lib {

class Context;

struct Watched {
  const char* name;
  const BoundTensor* tensor;
  bool read, written;
};

// Runs the call and waits for it. Throws INVALID_LABEL or INVALID_BOUNDS when an index was out of bounds,
// EXECUTION_FAILED when a written tensor holds a NaN and nothing that was read held a NaN or an infinity, and whatever
// waiting throws. While the stream is being captured there is nothing to wait for: the call only runs.
void run_validated(Context& context, std::span<const Watched> tensors, runtime::Stream stream,
                   const std::function<void()>& run);

}  // namespace ligerdsl::lib
