#include "lib/cli/options/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/cli/support/environment.h"
#include "lib/text/nearest.h"
#include "lib/text/numbers.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_in(app)) names.push_back(command->get_name());
  return names;
}

// Returns the commands that have this option.
std::vector<std::string> owners(const CLI::App& app, const std::string& option) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::vector<std::string> options = options_of(*command);
    if (std::count(options.begin(), options.end(), option)) names.push_back(command->get_name());
  }
  return names;
}

std::string unknown_option(const CLI::App& app, const CLI::App* command,
                           const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  const std::vector<std::string> elsewhere = owners(app, name);
  if (!elsewhere.empty()) {
    return command ? fmt::format("{1} has no option '{0}'; it is an option of {2}", name,
                                 command->get_name(), fmt::join(elsewhere, ", "))
                   : fmt::format("the option '{}' must follow its command: {}", name,
                                 fmt::join(elsewhere, ", "));
  }
  std::vector<std::string> known = options_of(app);
  if (command) {
    const std::vector<std::string> more = options_of(*command);
    known.insert(known.end(), more.begin(), more.end());
  }
  return fmt::format("unknown option '{}'{}", name, did_you_mean(name, known));
}

// Runs `parse`. Returns the text of its Failure for a validator, or "" if it throws none.
template <class Parse>
std::string refusal(const Parse& parse) {
  try {
    parse();
    return "";
  } catch (const Failure& failure) {
    const std::string text = failure.what();
    return text.substr(text.find(": ") + 2);  // omits the option's name, which CLI11 adds
  }
}

}  // namespace

std::vector<const CLI::App*> commands_in(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); });
}

const CLI::App* command_named(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : commands_in(app)) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

std::string no_command(const CLI::App& app, const std::string& before, const std::string& name) {
  const std::vector<std::string> names = commands_of(app);
  if (names.empty())
    return fmt::format("{} has no subcommands: unexpected argument '{}'", before, name);
  return fmt::format("unknown command '{}{}'{}; expected one of {}",
                     before.empty() ? "" : before + " ", name, did_you_mean(name, names),
                     fmt::join(names, ", "));
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = nullptr;
  std::string path;  // "table merge"
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = command = at->get_subcommands().front();
    path += (path.empty() ? "" : " ") + command->get_name();
  }
  const std::string help =
      command ? fmt::format("\nsee `ligerdsl --help` and `ligerdsl {} --help`", path)
              : "\nsee `ligerdsl --help`";
  const std::vector<std::string> unknown = app.remaining(true);
  const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool lacks_command = !command || !commands_of(*command).empty();
  if (unknown.empty()) return error.what() + help;
  const std::string& first = unknown.front();
  // Unknown options are reported before missing arguments, because they may be misspelled required
  // ones.
  if (first.size() > 1 && first[0] == '-') return unknown_option(app, command, first) + help;
  if (!(extra || lacks_command)) return error.what() + help;
  if (command && commands_of(*command).empty())
    return fmt::format("{}: unexpected argument '{}'", path, first) + help;
  return no_command(command ? *command : app, path, first);
}

CLI::Validator device_name() {
  return {[](std::string& text) { return refusal([&] { device_config(text); }); }, ""};
}

CLI::Validator one_of(const std::vector<std::string>& words) {
  const auto check = [words](const std::string& text) -> std::string {
    if (std::count(words.begin(), words.end(), text)) return "";
    return fmt::format("expected one of {}, got '{}'{}", fmt::join(words, ", "), text,
                       did_you_mean(text, words));
  };
  return {check, fmt::format("{{{}}}", fmt::join(words, ","))};
}

CLI::Validator new_names(const std::map<std::string, std::string>& renamed) {
  return {[renamed](std::string& text) -> std::string {
            if (const auto found = renamed.find(text); found != renamed.end()) text = found->second;
            return "";
          },
          ""};
}

CLI::Validator integer_from(int64_t low, int64_t high) {
  return {[=](std::string& text) {
            return refusal([&] { text = std::to_string(parse_integer("", text, low, high)); });
          },
          fmt::format("{} to {}", low, high)};
}

CLI::Validator number_from(double low, double high) {
  return {[=](std::string& text) { return refusal([&] { parse_real("", text, low, high); }); },
          fmt::format("{} to {}", low, high)};
}

void refuse_empty_values(CLI::App& app) {
  const auto refuse = [](const std::string& text) {
    return text.empty() ? "expected a value, got '' (an unset shell variable?)" : "";
  };
  for (CLI::Option* option : app.get_options()) {
    if (option->nonpositional() && option->get_items_expected_min() > 0) option->check(refuse);
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_values(*command);
}

}  // namespace ligerdsl::cli
