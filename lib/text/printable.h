// Text of unknown origin (names, files, messages) as a terminal may show it.
#pragma once

#include <string>
#include <string_view>

namespace ligerdsl::cli {

// UTF-8 with line ends and tabs stays; bytes that are not UTF-8 and control characters become \xNN.
std::string printable(std::string_view text);

// The same as one line: line ends and tabs become \n and \t. What stands in the middle of a sentence or a table
// must not begin a line of its own.
std::string printable_line(std::string_view text);

// Lines of more than `most` bytes end in "...": a file or an argument may be one long line.
std::string with_short_lines(std::string_view text, size_t most);

// Columns that printable text takes: its code points.
size_t columns(std::string_view text);

}  // namespace ligerdsl::cli
