// Version of the source code from which these binaries were built.
#pragma once

namespace ligerdsl::lib {

// Returns the build id and the commit: "0.2.0-0123456789abcdef commit HASH clean", "... dirty" if a
// source differs from the commit, or "... commit unknown".
const char* build_info();

}  // namespace ligerdsl::lib
