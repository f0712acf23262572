// Reproducer: a file for a bug report, with a program on which the compiler failed.
#pragma once

#include <string>
#include <string_view>

namespace ligerdsl::runtime {

// Writes the bytes of a program and its options to a file in LIGERDSL_REPRODUCER_DIR, else in
// TMPDIR if it is absolute, else in /tmp. The name of the file contains a digest of its content.
// Returns the path, or "" if the file could not be written.
std::string write_reproducer(std::string_view program, std::string_view options);

struct Reproducer {
  std::string program, options, build_id;
};

// Reads a reproducer. Throws INVALID_PROGRAM if the file cannot be read or is not a reproducer.
Reproducer read_reproducer(const std::string& path);

inline constexpr std::string_view kReproducerSuffix = ".reproducer";

}  // namespace ligerdsl::runtime
