// Mistakes on the command line, in words; and what its options may hold.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace ligerdsl::cli {

// What was wrong with the arguments, with the nearest option or command that exists.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

// cpu or cuda:N.
CLI::Validator device_name();

// A number of the range, ends included; the range stands in the help and in the error. integer_from writes 1e6 in
// digits for options that read no more: use it with transform().
CLI::Validator integer_from(int64_t low, int64_t high);
CLI::Validator number_from(double low, double high);

// A name or a path that is empty, as "$UNSET" is in a shell, is a mistake of every option of the command and its
// subcommands, never a default.
void refuse_empty_values(CLI::App& app);

}  // namespace ligerdsl::cli
