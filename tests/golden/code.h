// Text of a kernel's code or remarks without its locations in the sources.
#pragma once

#include <string>

namespace ligerdsl::test {

// Removes comments, debug-information lines and labels used only by these from PTX or x86 assembly.
std::string without_locations(const std::string& code, bool ptx);

// Shortens locations in a remark to "kernels/softmax/softmax.cpp", without the source folder and
// the line.
std::string without_lines(const std::string& remark);

}  // namespace ligerdsl::test
