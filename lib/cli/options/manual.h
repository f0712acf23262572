// Manual pages, written from what the command understands.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace ligerdsl::cli {

// ligerdsl.1, and ligerdsl-COMMAND.1 for each command of it that is not hidden.
void write_manual(const CLI::App& app, const std::string& folder);

}  // namespace ligerdsl::cli
