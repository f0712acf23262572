// Manual pages, generated from the definitions of the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace ligerdsl::cli {

// Writes ligerdsl.1, and ligerdsl-COMMAND.1 for each command that is not hidden.
void write_manual(const CLI::App& app, const std::string& folder);

}  // namespace ligerdsl::cli
