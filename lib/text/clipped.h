// Shortens texts of unknown origin for errors.
#pragma once

#include <string>
#include <string_view>

namespace ligerdsl::tune {

// Returns a text's first `most` bytes, followed by "..." if more were omitted.
inline std::string clipped(std::string_view text, size_t most = 60) {
  return text.size() <= most ? std::string(text) : std::string(text.substr(0, most)) + "...";
}

}  // namespace ligerdsl::tune
