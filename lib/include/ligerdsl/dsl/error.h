// What misuse of the DSL throws, and the source locations that every op carries.
#ifndef LIGERDSL_DSL_ERROR_H_
#define LIGERDSL_DSL_ERROR_H_

#include <source_location>
#include <stdexcept>

namespace ligerdsl {

// Where the author wrote an op. Functions take it as their last, defaulted parameter; operators get it from the
// conversion of an operand (operands.h).
using Loc = std::source_location;

// what(): "file:line:col: error: <op>: <what was expected, what came, what to write instead>".
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_ERROR_H_
