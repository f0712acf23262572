// The configurations that the tests of this folder run: every operation of the table, with its options.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace ligerdsl::test {

// Settings as the command takes them (lib/instance/op_instance.h): name=value.
struct Case {
  std::string op;
  std::vector<std::string> settings;
};

// All of them, small, with `rows` rows; then those of `more`, which are written alike.
std::vector<Case> cases(int64_t rows, std::span<const char* const> more = {});

// Letters, digits and underscores: a name for GoogleTest.
std::string name_of(const Case& which);

// For GoogleTest's messages: as the command line has it.
inline std::ostream& operator<<(std::ostream& out, const Case& which) {
  out << which.op;
  for (const std::string& setting : which.settings) out << " " << setting;
  return out;
}

// The operations of the library's table for which `list` has no case.
std::vector<std::string> operations_without(const std::vector<Case>& list);

}  // namespace ligerdsl::test
