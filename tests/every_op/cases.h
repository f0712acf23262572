// The cases that the tests of this folder run: every operation of the table, with its options.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace ligerdsl::test {

// An operation with settings as on the command line, name=value (lib/instance/op_instance.h).
struct Case {
  std::string op;
  std::vector<std::string> settings;
};

// Returns all cases of the table, with `rows` rows and small other sizes. Appends those of `more`,
// each written as "op name=value ...".
std::vector<Case> cases(int64_t rows, std::span<const char* const> more = {});

// Returns a test name for GoogleTest. It contains only letters, digits and underscores.
std::string name_of(const Case& which);

// Prints a case as on the command line, for GoogleTest.
inline std::ostream& operator<<(std::ostream& out, const Case& which) {
  out << which.op;
  for (const std::string& setting : which.settings) out << " " << setting;
  return out;
}

// Returns the operations of the table that have no case in `list`.
std::vector<std::string> operations_without(const std::vector<Case>& list);

}  // namespace ligerdsl::test
