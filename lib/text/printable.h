// Makes text of unknown origin (names, files, messages) safe for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace ligerdsl::cli {

// Keeps UTF-8, line ends and tabs. Bytes that are not UTF-8 and control characters become \xNN.
std::string printable(std::string_view text);

// Does the same for one line: line ends and tabs become \n and \t, so that the text cannot begin a
// line of its own in a sentence or a table.
std::string printable_line(std::string_view text);

// Shortens lines of more than `most` bytes to end in "...". A file or an argument may be one long
// line.
std::string with_short_lines(std::string_view text, size_t most);

// Returns the columns that printable text takes: the number of its code points.
size_t columns(std::string_view text);

}  // namespace ligerdsl::cli
