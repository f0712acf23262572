// Draws charts with gnuplot, which may not be installed.
#pragma once

#include <string>
#include <string_view>

namespace ligerdsl::cli {

// Throws Failure (kNothingFound) with instructions to install gnuplot if it is missing. `use` is
// the feature that needs it: "tune --report".
void require_gnuplot(const std::string& use);

// Quotes text for gnuplot, so that it contains no command, variable or markup. The terminal must be
// "noenhanced".
std::string gnuplot_text(std::string_view text);

// Returns gnuplot's drawing for these commands, which set a terminal but no output. If the commands
// draw several pictures, their texts are concatenated. gnuplot is stopped when the descriptor
// `stop` becomes readable. Throws Failure.
std::string drawn_by_gnuplot(const std::string& commands, int stop = -1);

}  // namespace ligerdsl::cli
