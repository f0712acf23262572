// Texts of unknown origin in errors.
#pragma once

#include <string>
#include <string_view>

namespace ligerdsl::tune {

// The first `most` bytes of a text, for an error: "abc...".
inline std::string clipped(std::string_view text, size_t most = 60) {
  return text.size() <= most ? std::string(text) : std::string(text.substr(0, most)) + "...";
}

}  // namespace ligerdsl::tune
