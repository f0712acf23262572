// A recorded kernel made ready for every pointer and stride that a later call may bring.
//
// On a GPU two variants are loaded, of kernels that multiply tiles three: compiled for aligned arguments
// (kernels/core/argument_facts.h says which are), for aligned factors, and for any. launch() looks at the actual arguments and
// takes the first that fits. On a CPU alignment makes no difference
// and there is one, but for kernels that go through lists of integers: one for contiguous lists and one for any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/compile_options.h"
#include "kernels/core/launch.h"
#include "lib/src/bind.h"
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

  // Compiles or loads for `launch`, whose grid says nothing here. promises: one per argument of the program, or none.
  // contract: a * b + c may become fma where the program does not forbid it.
  Launcher(Context& context, const program::Program& program, const Launch& launch,
           std::vector<ArgPromise> promises = {}, bool contract = true);

  // Packs one argument after the other, in the program's order, then launches. Takes no memory.
  class Pack {
   public:
    explicit Pack(const Launcher& launcher) : launcher_(launcher) {}
    void view(const BoundTensor& tensor);
    void bits(uint64_t value);
    void launch(const runtime::Grid& grid, runtime::Stream stream);

   private:
    void report(size_t missed, const BoundTensor& tensor) const;
    bool has_maps(const runtime::LoadedKernel& kernel) const;

    const Launcher& launcher_;
    size_t arg_ = 0, used_ = 0;
    size_t variant_ = 0;  // the first of the launcher's that fits what was packed
    uint64_t slots_[kMaxSlots];
  };

  const program::Program& program() const { return program_; }
  const program::Aliasing& aliasing() const { return aliasing_; }
  // The name of the argument whose slots begin there, or have begun before.
  const std::string& argument_at(uint32_t slot) const;
  // Programs along each axis that a launch takes at most.
  runtime::Grid largest_grid() const { return fastest().largest_grid(); }
  // The variant that launches of aligned arguments take.
  runtime::LoadedKernel& fastest() const { return *variants_.front().kernel; }

 private:
  struct Variant {
    std::vector<program::ArgFacts> facts;
    std::shared_ptr<runtime::LoadedKernel> kernel;
    const char* called;
  };
  program::Program program_;
  std::vector<program::Type> types_;  // of the arguments
  program::Aliasing aliasing_;
  std::vector<Variant> variants_;  // from the fastest to that of any arguments
};

// A scalar's 8-byte slot.
uint64_t bits_of(DType type, double value);
uint64_t bits_of(DType type, int64_t value);

}  // namespace ligerdsl::lib
