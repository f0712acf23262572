// Rules for launch arguments that share memory, common to the launcher and the interpreter.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "program/overlap.h"
#include "program/program.h"

namespace ligerdsl::program {

// Returns, for each argument of the program, true if a store or atomic writes through it.
std::vector<bool> written_arguments(const Program& program);

// Checks the rules for views that the kernel writes. Different indices of such a view refer to
// different elements, and it shares no memory with a read_only view. With `no_alias`, it shares no
// memory with any other view. Pointers are not checked; the caller is responsible for them.
class Aliasing {
 public:
  Aliasing() = default;
  Aliasing(const Program& program, bool no_alias);

  const std::vector<bool>& written() const { return written_; }
  // Returns an error if a store may write a read_only argument through a pointer that control flow
  // yields, else "". No launch of such a program can be correct.
  std::string contradiction() const;
  // Returns an error if views of a launch break a rule, else "". views[i] is argument arguments[i].
  std::string fault(std::span<const Strided> views, std::span<const size_t> arguments) const;

 private:
  bool must_be_disjoint(size_t written, size_t other) const {
    return written_[written] && (no_alias_ || read_only_[other]);
  }

  std::vector<std::string> names_;
  std::vector<bool> written_, read_only_;
  bool no_alias_ = false;
  bool some_must_be_disjoint_ = false;
};

}  // namespace ligerdsl::program
