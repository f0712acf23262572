// Errors of the command line as text, and validators of its options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ligerdsl::cli {

// Returns the error for wrong arguments, with the nearest existing option or command.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

// Return the commands listed in the help of `app`, and the one with this name among them, or null.
std::vector<const CLI::App*> commands_in(const CLI::App& app);
const CLI::App* command_named(const CLI::App& app, const std::string& name);

// Returns the error for an unknown command `name` of `app`, with the nearest one. `before` is the
// path of `app`.
std::string no_command(const CLI::App& app, const std::string& before, const std::string& name);

// Accepts cpu or cuda:N.
CLI::Validator device_name();

// Accepts one of these words.
CLI::Validator one_of(const std::vector<std::string>& words);

// Accept a number in the range, ends included. Help and errors show the range. integer_from also
// rewrites numbers like 1e6 in digits, for options that cannot parse them; use it with transform().
CLI::Validator integer_from(int64_t low, int64_t high);
CLI::Validator number_from(double low, double high);

// Makes every option of the command and its subcommands reject empty values. These come from unset
// shell variables and must not act as defaults.
void refuse_empty_values(CLI::App& app);

}  // namespace ligerdsl::cli
