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
  int rank = 0;  // number of dimensions of a view
  // True for the two arguments that KernelBuilder::dynamic_persistent adds. The launcher sets them.
  bool hidden = false;
};

// Returns the arguments in launch order. `program` is a result of finish_bytes(). Throws
// ligerdsl::Error for other bytes.
std::vector<DeclaredArgument> arguments_of(const std::string& program);

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_ARGUMENTS_H_
