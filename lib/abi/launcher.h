// A recorded kernel, loaded in variants for every pointer and stride that a later call may pass:
// - On a GPU, one variant for aligned arguments (kernels/core/argument_facts.h) and one for any
//   arguments. Some kernels also have one for contiguous tensors, and some that multiply tiles have
//   one for aligned operands.
// - On a CPU, where alignment makes no difference, one variant. Kernels that read lists of integers
//   have a second one, for contiguous lists.
//
// launch() uses the first variant that fits the actual arguments.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/compile_options.h"
#include "kernels/core/launch.h"
#include "lib/abi/bind.h"
#include "ligerdsl/dsl/kernel.h"
#include "program/aliasing.h"
#include "program/options.h"
#include "program/program.h"
#include "runtime/kernel/kernel.h"

namespace ligerdsl::lib {

using kernels::ArgPromise;

class Launcher {
 public:
  static constexpr size_t kMaxSlots = 160;

  // Compiles or loads the kernel for `launch`, whose grid is ignored.
  // - promises: one per argument of the program, or none.
  // - contract: a * b + c may become fma unless the program forbids it.
  Launcher(Context& context, const program::Program& program, const Launch& launch,
           std::vector<ArgPromise> promises = {}, bool contract = true);

  // Packs the arguments in the program's order, then launches. Does not allocate.
  class Pack {
   public:
    explicit Pack(const Launcher& launcher) : launcher_(launcher) {}
    void view(const BoundTensor& tensor);
    void bits(uint64_t value);
    void launch(const runtime::Grid& grid, runtime::Stream stream);

   private:
    // Returns true if all packed views satisfy the facts of a variant.
    bool fits(size_t variant) const;
    // Switches to the next variant whose facts hold for the packed arguments; `tensor` does not fit
    // the current one.
    void next_variant(const BoundTensor& tensor);
    void report(size_t missed, size_t index, const BoundTensor& tensor) const;
    bool has_maps(const runtime::LoadedKernel& kernel) const;

    const Launcher& launcher_;
    size_t arg_ = 0, used_ = 0;
    size_t variant_ = 0;  // first variant that fits the packed arguments
    uint64_t slots_[kMaxSlots];
  };

  const program::Program& program() const { return program_; }
  const program::Aliasing& aliasing() const { return aliasing_; }
  // Returns the name of the argument to which the slot belongs.
  const std::string& argument_at(uint32_t slot) const;
  // Returns the largest grid that a launch accepts.
  runtime::Grid largest_grid() const { return fastest().largest_grid(); }
  // Returns the variant that requires the most facts.
  runtime::LoadedKernel& fastest() const { return *variants_.front().kernel; }

 private:
  struct Variant {
    std::vector<program::ArgFacts> facts;
    std::shared_ptr<runtime::LoadedKernel> kernel;
    const char* called;
  };
  program::Program program_;
  std::vector<program::Type> types_;  // indexed by argument
  program::Aliasing aliasing_;
  std::vector<Variant> variants_;  // fastest first; the last accepts any arguments
};

// Returns the 8-byte slot of a scalar argument.
uint64_t bits_of(DType type, double value);
uint64_t bits_of(DType type, int64_t value);

}  // namespace ligerdsl::lib
