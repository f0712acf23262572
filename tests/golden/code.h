// The text of a kernel's code without what says where in the sources it comes from.
#pragma once

#include <string>

namespace ligerdsl::test {

// PTX or x86 assembly: comments, lines of debug information and the labels that only these use are left out.
std::string without_locations(const std::string& code, bool ptx);

// A remark with places as "kernels/softmax/softmax.cpp", whatever the folder of the sources and the line.
std::string without_lines(const std::string& remark);

}  // namespace ligerdsl::test
