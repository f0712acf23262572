// Words, one per operation, in which kernels report an out-of-range label, index, step or bounds
// (kernels::kErrorBase). The host reads them without waiting for the device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "lib/abi/bind.h"
#include "lib/abi/op_info.h"
#include "runtime/device/device.h"
#include "runtime/system/status.h"

namespace ligerdsl::lib {

struct Fault {
  const OpInfo* operation;
  int64_t row;  // first row, group or sequence with a fault (`operation->reported`)
};

// Returns INVALID_LABEL or INVALID_BOUNDS with a text that names the operation and the row.
runtime::Error error_of(const Fault& fault);

class ErrorFlags {
 public:
  explicit ErrorFlags(runtime::Device& device);
  ~ErrorFlags();
  ErrorFlags(const ErrorFlags&) = delete;

  // Returns the operation's word as a view of one i64, to which kernels write.
  BoundTensor word(int32_t operation) const;

  // Returns one operation's fault and clears its word.
  std::optional<Fault> take();

 private:
  // 16 bytes each, because kernels for aligned arguments require 16-byte alignment of every
  // address.
  struct alignas(16) Word {
    int64_t value;
  };

  runtime::Device& device_;
  std::span<Word> words_;  // indexed by OpInfo::index
};

}  // namespace ligerdsl::lib
