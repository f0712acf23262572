// The exception that misuse of the DSL throws, and the source location of an op.
#ifndef LIGERDSL_DSL_ERROR_H_
#define LIGERDSL_DSL_ERROR_H_

#include <cstdint>
#include <stdexcept>
#include <version>
#ifdef __cpp_lib_source_location
#include <source_location>
#endif

namespace ligerdsl {

// Here::current() as a default argument gives the source location of the call.
#ifdef __cpp_lib_source_location
using Here = std::source_location;
#else  // clang before 16
class Here {
 public:
  static constexpr Here current(const char* file = __builtin_FILE(),
                                uint32_t line = __builtin_LINE(),
                                uint32_t column = __builtin_COLUMN()) {
    return Here(file, line, column);
  }
  constexpr const char* file_name() const { return file_; }
  constexpr uint32_t line() const { return line_; }
  constexpr uint32_t column() const { return column_; }

 private:
  constexpr Here(const char* file, uint32_t line, uint32_t column)
      : file_(file), line_(line), column_(column) {}
  const char* file_;
  uint32_t line_, column_;
};
#endif

// Source location of an op in the author's code. Its layout is the same for all compilers, so
// authors need not use the compiler that built the library. Functions take it as their last
// parameter, `Loc loc = Here::current()`. Operators get it from the conversion of an operand
// (operands.h).
class Loc {
 public:
  constexpr Loc() = default;
  constexpr Loc(const Here& here)
      : file_(here.file_name()), line_(here.line()), column_(here.column()) {}  // NOLINT
  constexpr const char* file_name() const { return file_; }
  constexpr uint32_t line() const { return line_; }
  constexpr uint32_t column() const { return column_; }

 private:
  const char* file_ = "";
  uint32_t line_ = 0, column_ = 0;
};

// what(): "file:line:col: error: <op>: <what was expected, what was got, what to write instead>".
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_ERROR_H_
