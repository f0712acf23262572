// Pictures by gnuplot, a program that need not be installed.
#pragma once

#include <string>
#include <string_view>

namespace ligerdsl::cli {

// Throws Failure (kNothingFound) that says how to get it. `use`: "tune --report".
void require_gnuplot(const std::string& use);

// Text as gnuplot takes it literally, whatever is in it: nothing in it is a command, a variable or markup. The terminal
// must be "noenhanced".
std::string gnuplot_text(std::string_view text);

// What gnuplot draws by these commands, which choose a terminal and no output; pictures stand one after the other.
// `stop`: a descriptor that, when readable, ends it. Throws Failure.
std::string drawn_by_gnuplot(const std::string& commands, int stop = -1);

}  // namespace ligerdsl::cli
