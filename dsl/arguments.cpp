// Arguments of a serialised program.
#include "ligerdsl/dsl/arguments.h"

#include "program/op_info.h"
#include "program/serialize.h"

namespace ligerdsl {

std::vector<DeclaredArgument> arguments_of(const std::string& bytes) {
  using Kind = DeclaredArgument::Kind;
  const program::Program program = program::parseProgram(bytes);
  std::vector<DeclaredArgument> arguments;
  for (const program::Argument& argument : program.arguments) {
    const program::Type& type = program.values[argument.value];
    const Kind kind = type.kind == program::TypeKind::view  ? Kind::view
                      : type.kind == program::TypeKind::ptr ? Kind::pointer
                                                            : Kind::scalar;
    arguments.push_back({argument.name, kind, type.dtype, static_cast<int>(type.shape.size())});
  }
  for (size_t i = 0; program::isDynamicPersistent(program) && i < 2; ++i)
    arguments[i].hidden = true;
  return arguments;
}

}  // namespace ligerdsl
