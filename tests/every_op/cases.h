// Configurations that the tests of this folder run: every operation of the table, with its options.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace ligerdsl::test {

// Settings of the command (lib/instance/op_instance.h): name=value.
struct Case {
  std::string op;
  std::vector<std::string> settings;
};

// Returns all configurations with `rows` rows and small sizes, then those of `more`, in the same
// notation.
std::vector<Case> cases(int64_t rows, std::span<const char* const> more = {});

// Returns a name of letters, digits and underscores for GoogleTest.
std::string name_of(const Case& which);

// Prints a case for GoogleTest as on the command line.
inline std::ostream& operator<<(std::ostream& out, const Case& which) {
  out << which.op;
  for (const std::string& setting : which.settings) out << " " << setting;
  return out;
}

// Returns the operations of the table without a case in `list`.
std::vector<std::string> operations_without(const std::vector<Case>& list);

}  // namespace ligerdsl::test
