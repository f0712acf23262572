#include "lib/cli/options/completion.h"

#include <algorithm>

#include "lib/abi/structs.h"
#include "lib/cli/kernels/authors.h"
#include "lib/cli/kernels/launch_settings.h"
#include "lib/cli/kernels/recording_context.h"
#include "lib/cli/options/usage.h"
#include "lib/instance/op_instance.h"
#include "program/serialize.h"

namespace ligerdsl::cli {

namespace {

// State of the command line before the word that the user is typing.
struct Typed {
  const CLI::App* command = nullptr;
  const CLI::Option* awaits = nullptr;  // option whose value the typed word is, or null
  bool options_ended = false;           // true after `--`
  std::vector<std::string> positionals, loaded;
};

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

// Returns the option with this name, of the command or of a parent command, because global options
// may follow a subcommand.
const CLI::Option* option_named(const CLI::App* command, const std::string& name) {
  for (; command; command = command->get_parent()) {
    if (const CLI::Option* found = command->get_option_no_throw(name)) return found;
  }
  return nullptr;
}

void take_value(const CLI::Option& option, const std::string& value, Typed* typed) {
  if (option.check_lname("load")) typed->loaded.push_back(value);
}

void take(const std::string& word, Typed* typed) {
  if (typed->awaits) {
    take_value(*typed->awaits, word, typed);
    typed->awaits = nullptr;
  } else if (word == "--") {
    typed->options_ended = true;
  } else if (word.size() > 1 && word[0] == '-' && !typed->options_ended) {
    const size_t equal = word.find('=');
    const CLI::Option* option = option_named(typed->command, word.substr(0, equal));
    if (!option || !takes_value(*option)) return;
    if (equal == std::string::npos)
      typed->awaits = option;
    else
      take_value(*option, word.substr(equal + 1), typed);
  } else if (const CLI::App* command = command_named(*typed->command, word);
             command && typed->positionals.empty()) {
    typed->command = command;
  } else {
    typed->positionals.push_back(word);
  }
}

std::string first_sentence(const std::string& text) {
  return text.substr(0, std::min(text.find("; "), text.find('\n')));
}

class Completer {
 public:
  Completer(const CommandLine& line, Typed typed, std::string word)
      : line_(line), typed_(std::move(typed)), word_(std::move(word)) {}

  std::vector<Candidate> run() {
    const size_t equal = word_.find('=');
    if (typed_.awaits) {
      add_values(*typed_.awaits, "");
    } else if (word_.starts_with("--") && equal != std::string::npos) {
      const CLI::Option* option = option_named(typed_.command, word_.substr(0, equal));
      if (option && takes_value(*option)) add_values(*option, word_.substr(0, equal + 1));
    } else if (word_.starts_with("-") && !typed_.options_ended) {
      add_options();
    } else if (!commands_in(*typed_.command).empty()) {
      for (const CLI::App* command : commands_in(*typed_.command))
        add(command->get_name(), command->get_description());
    } else {
      add_positional();
    }
    return std::move(found_);
  }

 private:
  void add(const std::string& word, const std::string& about = "") {
    if (word == kFiles || word.starts_with(word_)) found_.push_back({word, first_sentence(about)});
  }

  void add_options() {
    for (const CLI::App* command = typed_.command; command; command = command->get_parent()) {
      for (const CLI::Option* option : command->get_options()) {
        for (const std::string& name : option->get_lnames())
          add("--" + name, option->get_description());
        for (const std::string& name : option->get_snames())
          add("-" + name, option->get_description());
      }
    }
  }

  // Adds the words of the next positional argument. The last positional argument also accepts all
  // later words if it takes several.
  void add_positional() {
    const std::vector<const CLI::Option*> options =
        typed_.command->get_options([](const CLI::Option* each) { return each->get_positional(); });
    if (options.empty()) return;
    const size_t last = options.size() - 1;
    if (typed_.positionals.size() > last && options[last]->get_items_expected_max() == 1) return;
    add_values(*options[std::min(last, typed_.positionals.size())], "");
  }

  void add_values(const CLI::Option& option, const std::string& before) {
    const auto offer = line_.offers.find(&option);
    if (offer == line_.offers.end()) return;
    switch (offer->second.kind) {
      case Offer::Kind::words:
        for (const std::string& word : offer->second.words) add(before + word);
        break;
      case Offer::Kind::files:
        add(kFiles);
        break;
      case Offer::Kind::kernels:
        add_kernels();
        break;
      case Offer::Kind::settings:
        add_settings();
        break;
      case Offer::Kind::commands:
        add_commands();
        break;
    }
  }

  void add_kernels() {
    for (const lib::OpInfo* op : lib::op_table()) add(op->name);
    const AuthorKernels authors(typed_.loaded);
    for (const auto& kernel : authors.all()) add(kernel->name(), kernel->description());
  }

  void add_commands() {
    const CLI::App* at = &line_.app;
    for (const std::string& name : typed_.positionals) {
      at = command_named(*at, name);
      if (!at) return;
    }
    for (const CLI::App* command : commands_in(*at))
      add(command->get_name(), command->get_description());
  }

  // Adds NAME=, or NAME=WORD for each word if NAME= is already typed.
  void add_setting(const std::string& name, const std::vector<std::string>& words) {
    if (!word_.starts_with(name + "=")) return add(name + "=");
    for (const std::string& word : words) add(name + "=" + word);
  }

  void add_settings() {
    const std::string& kernel = typed_.positionals.front();
    const AuthorKernels authors(typed_.loaded);
    if (const AnyKernel* author = authors.find(kernel)) return add_author_settings(*author);
    const lib::OpInfo& info = find_op(kernel);
    for (const std::string& name : setting_names(info)) {
      const auto field =
          std::find_if(info.fields.begin(), info.fields.end(),
                       [&](const lib::FieldInfo& each) { return each.name == name; });
      add_setting(name,
                  field == info.fields.end() ? std::vector<std::string>{} : words_for(*field));
    }
    add_configs(info);
  }

  void add_author_settings(const AnyKernel& kernel) {
    for (const MetaField& field : kernel.fields()) add_setting(field.name, field.choices);
    for (const std::string& name : launch_setting_names()) add_setting(name, {});
    const program::Program program =
        program::parseProgram(kernel.program_bytes({}, target_named("cpu")));
    for (const program::Argument& argument : program.arguments) add_setting(argument.name, {});
  }

  // Makes a plan with default settings on a CPU, because only a plan lists the fields of a
  // schedule.
  void add_configs(const lib::OpInfo& info) {
    program::CompileOptions options;
    options.target = program::Target::cpu;
    const auto context = std::make_shared<RecordingContext>(options);
    OpInstance instance(info, {});
    static_cast<void>(instance.plan(context));
    for (const ConfigSettings::Kernel& each : instance.config().kernels()) {
      for (const MetaField& field : each.fields) {
        if (field.bits != Bits::fixed) add_setting("config." + field.name, field.choices);
      }
    }
  }

  const CommandLine& line_;
  Typed typed_;
  std::string word_;
  std::vector<Candidate> found_;
};

}  // namespace

std::vector<Candidate> complete(const CommandLine& line, std::vector<std::string> words) {
  if (words.size() < 2) return {};
  Typed typed{.command = &line.app};
  for (size_t i = 1; i + 1 < words.size(); ++i) take(words[i], &typed);
  return Completer(line, std::move(typed), words.back()).run();
}

}  // namespace ligerdsl::cli
