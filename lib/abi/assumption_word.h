// Device word in which a validated kernel reports an assumption that does not hold
// (program/checked_assumptions.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/device/device.h"

namespace ligerdsl::lib {

class Context;

class AssumptionWord {
 public:
  // If the context validates calls and the program has assumptions (`assume`, `assume_divisible`),
  // adds a last argument to the program: a pointer to the word in which the kernel reports broken
  // assumptions. Pass address() for it. Otherwise returns null and leaves the program unchanged.
  static std::unique_ptr<AssumptionWord> of(Context& context, program::Program* program);

  AssumptionWord(runtime::Device& device, std::vector<std::string> reports);
  ~AssumptionWord();
  AssumptionWord(const AssumptionWord&) = delete;

  uint64_t address() const { return reinterpret_cast<uintptr_t>(word_); }
  // Waits for the stream. Throws EXECUTION_FAILED with the author's line if an assumption did not
  // hold. Does nothing while the stream is being captured.
  void check(runtime::Stream stream);

 private:
  void clear(runtime::Stream stream);

  runtime::Device& device_;
  std::vector<std::string> reports_;
  void* word_;
};

}  // namespace ligerdsl::lib
