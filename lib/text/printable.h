// Makes text of unknown origin (names, files, messages) safe for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace ligerdsl::cli {

// Keeps UTF-8, line ends and tabs. Replaces control characters, and bytes that are not UTF-8, by
// \xNN.
std::string printable(std::string_view text);

// Like printable(), but also replaces line ends and tabs by \n and \t, so that the text cannot
// start a new line in a sentence or table.
std::string printable_line(std::string_view text);

// Shortens lines of more than `most` bytes, which then end in "...". A file or an argument may be
// one long line.
std::string with_short_lines(std::string_view text, size_t most);

// Returns the number of columns of printable text: its number of code points.
size_t columns(std::string_view text);

}  // namespace ligerdsl::cli
