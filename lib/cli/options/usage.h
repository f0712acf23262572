// Errors of the command line as text, and validators of its options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ligerdsl::cli {

// Returns the error for wrong arguments, with the nearest existing option or command.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

// Return the commands of `app` that its help lists; the one of this name among them, or null.
std::vector<const CLI::App*> commands_in(const CLI::App& app);
const CLI::App* command_named(const CLI::App& app, const std::string& name);

// Returns the error that `app` has no command of this name, with the nearest one. `before` is the
// path of `app`.
std::string no_command(const CLI::App& app, const std::string& before, const std::string& name);

// Accepts cpu or cuda:N.
CLI::Validator device_name();

// Accepts one of these words.
CLI::Validator one_of(const std::vector<std::string>& words);

// Accept a number of the range, ends included. Help and errors show the range. integer_from also
// rewrites 1e6 in digits for options that cannot parse it; use it with transform().
CLI::Validator integer_from(int64_t low, int64_t high);
CLI::Validator number_from(double low, double high);

// Makes an empty value an error for every option of the command and its subcommands. Empty values
// come from unset variables in a shell and must not act as defaults.
void refuse_empty_values(CLI::App& app);

}  // namespace ligerdsl::cli
