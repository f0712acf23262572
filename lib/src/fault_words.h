// Where kernels report a label or an offset out of range (kernels::kErrorBase): a word for each operation, which the host reads
// without waiting for the device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "lib/src/bind.h"
#include "runtime/device.h"

namespace ligerdsl::lib {

struct Fault {
  const char* operation;  // as long as the library
  int64_t row;            // the lowest of its rows with one; of grouped products, group; of attention, sequence
};

std::string text_of(const Fault& fault);

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
