// Which arguments of a launch may share memory: one rule for the launcher and the interpreter.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "program/overlap.h"
#include "program/program.h"

namespace ligerdsl::program {

// For each argument of the program: does any store or atomic of the program write through it?
std::vector<bool> written_arguments(const Program& program);

// A view that the kernel writes reaches each of its elements through one index. Its memory is apart from that of views
// that are declared read_only, and with `no_alias` from that of all others. For pointers the caller answers.
class Aliasing {
 public:
  Aliasing() = default;
  Aliasing(const Program& program, bool no_alias);

  const std::vector<bool>& written() const { return written_; }
  // A read_only argument that a store may reach through a pointer out of control flow; "" where there is none. No
  // launch can be right then.
  std::string contradiction() const;
  // What is wrong with a launch on these views, "" if nothing is; arguments[i] is the number of views[i].
  std::string fault(std::span<const Strided> views, std::span<const size_t> arguments) const;

 private:
  bool must_be_apart(size_t written, size_t other) const {
    return written_[written] && (no_alias_ || read_only_[other]);
  }

  std::vector<std::string> names_;
  std::vector<bool> written_, read_only_;
  bool no_alias_ = false;
  bool some_must_be_apart_ = false;
};

}  // namespace ligerdsl::program
