// What these binaries were built from.
#pragma once

namespace ligerdsl::lib {

// The build id and the commit: "0.1.0-0123456789abcdef commit HASH clean", "... dirty" where a source is not the
// commit's, or
// "... commit unknown".
const char* build_info();

}  // namespace ligerdsl::lib
