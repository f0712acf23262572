// Mistakes on the command line, in words; and what its options may hold.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ligerdsl::cli {

// What was wrong with the arguments, with the nearest option or command that exists.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

// The commands of `app` that its help lists, and the one of this name among them, or null.
std::vector<const CLI::App*> commands_in(const CLI::App& app);
const CLI::App* command_named(const CLI::App& app, const std::string& name);

// That `app` has no command of this name, with the one that was meant; `before` is what stands in front of it.
std::string no_command(const CLI::App& app, const std::string& before, const std::string& name);

// cpu or cuda:N.
CLI::Validator device_name();

// One of these words.
CLI::Validator one_of(const std::vector<std::string>& words);

// A number of the range, ends included; the range stands in the help and in the error. integer_from writes 1e6 in
// digits for options that read no more: use it with transform().
CLI::Validator integer_from(int64_t low, int64_t high);
CLI::Validator number_from(double low, double high);

// A name or a path that is empty, as "$UNSET" is in a shell, is a mistake of every option of the command and its
// subcommands, never a default.
void refuse_empty_values(CLI::App& app);

}  // namespace ligerdsl::cli
