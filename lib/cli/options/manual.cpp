#include "lib/cli/options/manual.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>

#include "lib/cli/options/usage.h"
#include "lib/cli/support/exit_codes.h"
#include "lib/text/output.h"
#include "ligerdsl/ligerdsl.h"

namespace ligerdsl::cli {

namespace {

// Escapes text for a manual page, so that roff reads no requests or escapes in it. Hyphens become
// "-" that users can copy.
std::string roff(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\')
      safe += "\\e";
    else if (c == '-')
      safe += "\\-";
    else if (c == '\n')
      safe += "\n.br\n";
    else
      safe += c;
  }
  return !safe.empty() && (safe[0] == '.' || safe[0] == '\'') ? "\\&" + safe : safe;
}

std::string section(const std::string& name) {
  return fmt::format(".SH {}\n", name);
}

// Returns an option's names in bold ("-o, --output"), or a positional argument's name in italics.
std::string names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  if (names.empty()) return fmt::format("\\fI{}\\fR", roff(option.get_name(true)));
  std::string text;
  for (const std::string& name : names)
    text += fmt::format("{}\\fB{}\\fR", text.empty() ? "" : ", ", roff(name));
  return text;
}

std::string entry(const CLI::Option& option) {
  std::string head = names_of(option), about = roff(option.get_description());
  if (option.nonpositional() && option.get_items_expected_max() > 0)
    head += fmt::format(" \\fI{}\\fR", roff(option.get_type_name()));
  if (const std::string value = option.get_default_str(); !value.empty())
    about += fmt::format(" (default: {})", roff(value));
  return fmt::format(".TP\n{}\n{}.\n", head, about);
}

std::string entries(const CLI::App& app, const std::string& title, bool positional) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() == positional && !option->get_group().empty())
      text += entry(*option);
  }
  return text.empty() ? "" : title + text;
}

std::string synopsis(const CLI::App& app, const std::string& path) {
  std::string text = fmt::format("\\fB{}\\fR [\\fIOPTIONS\\fR]", roff(path));
  if (!commands_in(app).empty())
    text += app.get_require_subcommand_min() > 0 ? " \\fICOMMAND\\fR" : "";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = fmt::format("\\fI{}\\fR", roff(option->get_name(true)));
    const std::string many = option->get_items_expected_max() > 1 ? " ..." : "";
    text += option->get_required() ? " " + name + many : fmt::format(" [{}{}]", name, many);
  }
  return text + "\n";
}

// Returns today's date, or SOURCE_DATE_EPOCH for reproducible builds.
std::string date() {
  const char* agreed = std::getenv("SOURCE_DATE_EPOCH");
  return fmt::format(
      "{:%F}", fmt::gmtime(agreed ? static_cast<time_t>(std::atoll(agreed)) : std::time(nullptr)));
}

std::string heading(const std::string& name, const std::string& about) {
  return fmt::format(".TH {} 1 {} \"ligerdsl {}.{}.{}\" \"ligerdsl\"\n", roff(name), date(),
                     LIGERDSL_VERSION_MAJOR, LIGERDSL_VERSION_MINOR, LIGERDSL_VERSION_PATCH) +
         section("NAME") + fmt::format("{} \\- {}\n", roff(name), roff(about));
}

// Describes the subcommands of a command on the command's page.
std::string nested(const CLI::App& app, const std::string& path) {
  std::string text;
  for (const CLI::App* command : commands_in(app)) {
    const std::string name = path + " " + command->get_name();
    text += fmt::format(".SS \"{}\"\n{}.PP\n{}.\n", roff(name), synopsis(*command, name),
                        roff(command->get_description()));
    text += entries(*command, "", true) + entries(*command, "", false);
  }
  return text.empty() ? "" : section("COMMANDS") + text;
}

std::string command_page(const CLI::App& command) {
  const std::string path = "ligerdsl " + command.get_name();
  return heading("ligerdsl-" + command.get_name(), command.get_description()) +
         section("SYNOPSIS") + synopsis(command, path) +
         entries(command, section("ARGUMENTS"), true) +
         entries(command, section("OPTIONS"), false) + nested(command, path) + section("SEE ALSO") +
         "\\fBligerdsl\\fR(1) has the options that every command takes, and the exit status.\n";
}

std::string exit_status() {
  std::string text = section("EXIT STATUS");
  for (const auto& [code, meaning] : exit_codes())
    text += fmt::format(".TP\n{}\n{}.\n", code, roff(meaning));
  return text;
}

std::string main_page(const CLI::App& app) {
  std::string commands = section("COMMANDS"), also = section("SEE ALSO");
  for (const CLI::App* command : commands_in(app)) {
    commands += fmt::format(".TP\n\\fB{}\\fR\n{}.\n", roff(command->get_name()),
                            roff(command->get_description()));
    also += fmt::format("{}\\fBligerdsl\\-{}\\fR(1)", also.ends_with('\n') ? "" : ",\n",
                        roff(command->get_name()));
  }
  return heading("ligerdsl", app.get_description()) + section("SYNOPSIS") +
         synopsis(app, "ligerdsl") + commands + entries(app, section("OPTIONS"), false) +
         exit_status() + also + "\n";
}

}  // namespace

void write_manual(const CLI::App& app, const std::string& folder) {
  write_file(folder + "/ligerdsl.1", main_page(app));
  for (const CLI::App* command : commands_in(app))
    write_file(folder + "/ligerdsl-" + command->get_name() + ".1", command_page(*command));
}

}  // namespace ligerdsl::cli
