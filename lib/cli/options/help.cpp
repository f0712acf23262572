#include <memory>

#include "lib/cli/options/command_line.h"
#include "lib/cli/options/usage.h"

namespace ligerdsl::cli {

namespace {

int help(const CLI::App& app, const std::vector<std::string>& names) {
  const CLI::App* at = &app;
  std::string path;
  for (const std::string& name : names) {
    const CLI::App* next = command_named(*at, name);
    if (!next) throw Failure(kUsage, no_command(*at, path, name));
    path += (path.empty() ? "" : " ") + name;
    at = next;
  }
  // Uses the formatter, because App::help() would describe the chosen command, `help`.
  const std::string name = app.get_name() + (path.empty() ? "" : " " + path);
  print_text(at->get_formatter()->make_help(at, name, CLI::AppFormatMode::Normal));
  return kOk;
}

}  // namespace

void add_help(CommandLine& line) {
  CLI::App* command = line.app.add_subcommand("help", "Show what a command does, and its options");
  const auto names = std::make_shared<std::vector<std::string>>();
  line.offer(
      command->add_option("command", *names, "Command to describe; default: the list of commands"),
      {.kind = Offer::Kind::commands});
  line.on(command, [&line, names](const Globals&) { return help(line.app, *names); });
}

}  // namespace ligerdsl::cli
