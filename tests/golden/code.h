// Text of a kernel's code or remarks without source locations.
#pragma once

#include <string>

namespace ligerdsl::test {

// Removes comments, debug information and its labels from PTX or x86 assembly.
std::string without_locations(const std::string& code, bool ptx);

// Shortens locations in a remark to "kernels/softmax/softmax.cpp", without the source folder and
// the line.
std::string without_lines(const std::string& remark);

}  // namespace ligerdsl::test
