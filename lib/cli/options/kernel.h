// Options shared by several subcommands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/cli/options/command_line.h"

namespace ligerdsl::cli {

// Adds a subcommand's arguments for a kernel and its settings. `also` is appended to the help text
// of KERNEL.
void add_kernel(CommandLine& line, CLI::App* command, std::string* kernel,
                std::vector<std::string>* settings, bool required, const std::string& also = "");

// Adds --in name=FILE.npy.
void add_inputs(CommandLine& line, CLI::App* command, std::vector<std::string>* inputs);

// Adds --set, --model and --rows, which choose cases of sets.
void add_sets(CommandLine& line, CLI::App* command, std::vector<std::string>* sets,
              std::vector<int64_t>* rows);

// Adds --target: cpu or an architecture.
CLI::Option* add_target(CommandLine& line, CLI::App* command, std::string* target,
                        const std::string& description);

// Adds --variant, a variant of a GPU kernel (kernels/core/argument_facts.h). `before` precedes the
// help text.
CLI::Option* add_variant(CommandLine& line, CLI::App* command, std::string* variant,
                         const std::string& before = "");

}  // namespace ligerdsl::cli
