#include <fmt/format.h>

#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/options/completion.h"
#include "lib/cli/options/manual.h"

namespace ligerdsl::cli {

void add_complete(CommandLine& line) {
  CLI::App* command =
      line.app.add_subcommand("complete", "")->group("")->prefix_command()->fallthrough(false);
  line.on(command, [&line, command](const Globals&) {
    for (const Candidate& one : complete(line, command->remaining()))
      print_text(one.word + "\t" + one.about + "\n");
    return int{kOk};
  });
}

void add_generate(CommandLine& line) {
  CLI::App* command = line.app.add_subcommand("generate", "")->group("");
  command->require_subcommand(1);
  const auto output = std::make_shared<std::string>("-");
  const auto add_script = [&](const char* shell, std::string (*script)()) {
    CLI::App* one =
        command->add_subcommand(shell, fmt::format("Print the completion script for {}", shell));
    line.offer(one->add_option("-o,--output", *output, "Write to this file; default: stdout"),
               {.kind = Offer::Kind::files});
    line.on(one,
            [output, script](const Globals&) { return write_file(*output, script()), int{kOk}; });
  };
  add_script("bash", bash_completion);
  add_script("zsh", zsh_completion);
  CLI::App* man = command->add_subcommand("man", "Write the manual pages, one file per command");
  const auto folder = std::make_shared<std::string>();
  line.offer(man->add_option("folder", *folder, "Folder for the manual pages")->required(),
             {.kind = Offer::Kind::files});
  line.on(man, [&line, folder](const Globals&) {
    write_manual(line.app, *folder);
    return int{kOk};
  });
}

}  // namespace ligerdsl::cli
