// The arguments of a recorded program, for code that binds them by name.
#ifndef LIGERDSL_DSL_ARGUMENTS_H_
#define LIGERDSL_DSL_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ligerdsl/dtype.h"

namespace ligerdsl {

struct DeclaredArgument {
  enum class Kind : uint8_t { view, scalar, pointer };
  std::string name;
  Kind kind = Kind::scalar;
  DType dtype = f32;
  int rank = 0;  // of a view
  // One of the two that KernelBuilder::dynamic_persistent puts in front: whoever launches sets it.
  bool hidden = false;
};

// In launch order. `program`: what finish_bytes() gives; other bytes throw ligerdsl::Error.
std::vector<DeclaredArgument> arguments_of(const std::string& program);

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_ARGUMENTS_H_
