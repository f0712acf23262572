// Errors of the command line as text, and validators of its options.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

namespace ligerdsl::cli {

// Returns the error text for wrong arguments. It suggests the option or command with the most
// similar name.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

// commands_in() returns the commands that the help of `app` lists. command_named() returns the
// listed command with this name, or null.
std::vector<const CLI::App*> commands_in(const CLI::App& app);
const CLI::App* command_named(const CLI::App& app, const std::string& name);

// Returns the error text for an unknown command `name` of `app`, with the most similar command.
// `before` is the path of `app` below the root, such as "cache", or "" for the root.
std::string no_command(const CLI::App& app, const std::string& before, const std::string& name);

// Accepts cpu or cuda:N.
CLI::Validator device_name();

// Accepts one of these words.
CLI::Validator one_of(const std::vector<std::string>& words);

// Replaces an old name, a key of `renamed`, by its new name; use it with transform().
CLI::Validator new_names(const std::map<std::string, std::string>& renamed);

// Accept a number in the range, ends included. Help and errors show the range. integer_from also
// rewrites a number like 1e6 as 1000000, because CLI11 does not parse 1e6 as an integer; use it
// with transform().
CLI::Validator integer_from(int64_t low, int64_t high);
CLI::Validator number_from(double low, double high);

// Makes every option of the command and its subcommands reject empty values. An empty value comes
// from an unset shell variable and must not act like a missing option.
void refuse_empty_values(CLI::App& app);

}  // namespace ligerdsl::cli
