// What ptxas makes of a kernel's PTX: for `compile --emit cubin | resources | sass`.
#pragma once

#include <string>

namespace ligerdsl::cli {

// cubin: the file's bytes; resources: ptxas's report of registers and memory; sass: the machine instructions, through
// cuobjdump. Throws Failure with what the tool printed and the command that repeats it.
std::string assemble(const std::string& ptx, const std::string& arch, const std::string& stage);

}  // namespace ligerdsl::cli
