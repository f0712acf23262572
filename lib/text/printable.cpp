#include "lib/text/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace ligerdsl::cli {

namespace {

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

// Returns the length of the well-formed UTF-8 sequence (Unicode, table 3-7) with which the text
// begins, or 0.
size_t sequence(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!continues(text[i])) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool too_long = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool no_character = (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
  return too_long || no_character ? 0 : length;
}

// Returns true for control characters: C0, DEL, and C1 in UTF-8.
bool control(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1)
    return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(sequence[1]) < 0xa0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = sequence(text);
    if (length != 0 && !control(text.substr(0, length))) {
      out.append(text.substr(0, length));
    } else {
      for (const char c : text.substr(0, std::max<size_t>(length, 1)))
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string printable_line(std::string_view text) {
  std::string line;
  for (const char c : printable(text)) {
    if (c == '\n' || c == '\t')
      line += c == '\n' ? "\\n" : "\\t";
    else
      line += c;
  }
  return line;
}

std::string with_short_lines(std::string_view text, size_t most) {
  std::string shorter;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    shorter += end <= most ? text.substr(0, end) : std::string(text.substr(0, most)) + "...";
    if (end < text.size()) shorter += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return shorter;
}

size_t columns(std::string_view text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), continues));
}

}  // namespace ligerdsl::cli
