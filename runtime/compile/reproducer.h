// A program that the compiler failed on, kept in a file for a report.
#pragma once

#include <string>
#include <string_view>

namespace ligerdsl::runtime {

// Writes the bytes of a program and its options to a file of LIGERDSL_REPRODUCER_DIR, else of TMPDIR or /tmp, named by
// their digest. Returns its path, or nothing when it could not be written.
std::string write_reproducer(std::string_view program, std::string_view options);

struct Reproducer {
  std::string program, options, build_id;
};

// Throws INVALID_PROGRAM when the file cannot be read or is none of these.
Reproducer read_reproducer(const std::string& path);

inline constexpr std::string_view kReproducerSuffix = ".reproducer";

}  // namespace ligerdsl::runtime
