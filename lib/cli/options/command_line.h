// The command line. One file per subcommand defines its options.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/text/output.h"

namespace ligerdsl::cli {

// Values that a shell offers as completions of an option.
struct Offer {
  enum class Kind { words, files, kernels, settings, commands };
  Kind kind = Kind::words;
  std::vector<std::string> words = {};
};

class CommandLine {
 public:
  CommandLine();
  CommandLine(const CommandLine&) = delete;

  CLI::App app;
  Globals globals;
  std::function<int()> chosen;  // runs the chosen subcommand; parsing sets it

  // Completions of each option's value, for completion.h.
  std::map<const CLI::Option*, Offer> offers;
  CLI::Option* offer(CLI::Option* option, Offer what) {
    return offers[option] = std::move(what), option;
  }
  // Restricts the option to these words and offers them. Also accepts old names of words, which
  // `renamed` maps to the new ones; an old name stays for one release.
  CLI::Option* choice(CLI::Option* option, const std::vector<std::string>& words,
                      const std::map<std::string, std::string>& renamed = {});

  // If the parser finds `command`, sets `chosen` to call run(globals), which returns the exit code.
  template <class Run>
  void on(CLI::App* command, Run run) {
    command->callback(
        [this, run = std::move(run)] { chosen = [this, run] { return run(globals); }; });
  }
};

// Each function adds a subcommand, in the order of the help.
void add_doctor(CommandLine& line);
void add_list(CommandLine& line);
void add_compile(CommandLine& line);
void add_explain(CommandLine& line);
void add_layout(CommandLine& line);
void add_cache(CommandLine& line);
void add_run(CommandLine& line);
void add_check(CommandLine& line);
void add_bench(CommandLine& line);
void add_tune(CommandLine& line);
void add_report(CommandLine& line);
void add_table(CommandLine& line);
void add_help(CommandLine& line);
// Hidden subcommands, which shells and the build call.
void add_complete(CommandLine& line);
void add_generate(CommandLine& line);

}  // namespace ligerdsl::cli
