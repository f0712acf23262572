// Kernels report a label, an index or bounds out of range in a word of their operation (kernels::kErrorBase). The host reads
// the words without waiting for the device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "lib/src/bind.h"
#include "lib/src/op_info.h"
#include "runtime/device/device.h"
#include "runtime/system/status.h"

namespace ligerdsl::lib {

struct Fault {
  const OpInfo* operation;
  int64_t row;  // the first row, group or sequence with a fault, as `operation->reported` says
};

// INVALID_LABEL or INVALID_BOUNDS, with a text that names the operation and the row.
runtime::Error error_of(const Fault& fault);

class FaultWords {
 public:
  explicit FaultWords(runtime::Device& device);
  ~FaultWords();
  FaultWords(const FaultWords&) = delete;

  // What kernels of the operation write to; a view of one i64.
  BoundTensor word(int32_t operation) const;

  // What is there of one operation, which is cleared.
  std::optional<Fault> take();

 private:
  // Apart, because kernels for aligned arguments ask it of every argument whose address they take.
  struct alignas(16) Word {
    int64_t value;
  };

  runtime::Device& device_;
  std::span<Word> words_;  // by OpInfo::index
};

}  // namespace ligerdsl::lib
