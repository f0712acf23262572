#include "runtime/environment/options.h"

#include <sys/auxv.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string_view>

#include "runtime/environment/cpu_level.h"
#include "runtime/environment/stage_files.h"

namespace ligerdsl::runtime {
namespace {

// A row of options.def: the texts that `ligerdsl doctor` prints, and the parser of the value.
// `parse` returns false for an invalid value.
struct Row {
  OptionInfo info;
  bool (*parse)(std::string_view text, Options& to);
};

bool parse_log(std::string_view text, Options& to) {
  constexpr std::string_view names[] = {"off", "error", "warning", "info", "debug"};
  const auto* found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return false;
  to.log = static_cast<LogLevel>(found - names);
  return true;
}

bool parse_cache(std::string_view text, Options& to) {
  constexpr std::string_view names[] = {"off", "ro", "rw", "required"};
  const auto* found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return false;
  to.cache = static_cast<CacheMode>(found - names);
  return true;
}

bool parse_tuning(std::string_view text, Options& to) {
  constexpr std::string_view names[] = {"off", "same", "any"};
  const auto* found = std::find(std::begin(names), std::end(names), text);
  if (found == std::end(names)) return false;
  to.tuning = static_cast<Tuning>(found - names);
  return true;
}

template <bool Options::*Member>
bool parse_switch(std::string_view text, Options& to) {
  if (text != "0" && text != "1") return false;
  to.*Member = text == "1";
  return true;
}

bool parse_compile(std::string_view text, Options& to) {
  if (text != "thread" && text != "process") return false;
  to.compile = text == "process" ? CompileMode::process : CompileMode::thread;
  return true;
}

template <int32_t Options::*Member, int32_t Low, int32_t High>
bool parse_number(std::string_view text, Options& to) {
  int32_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < Low || value > High)
    return false;
  to.*Member = value;
  return true;
}

template <int64_t Options::*Member>
bool parse_size(std::string_view text, Options& to) {
  const std::optional<int64_t> bytes = parse_bytes(text);
  if (!bytes || *bytes == 0) return false;
  to.*Member = *bytes;
  return true;
}

bool parse_cpu(std::string_view text, Options& to) {
  const auto levels = cpu_levels();
  if (text != "host" && std::find(levels.begin(), levels.end(), text) == levels.end()) return false;
  to.cpu = text == "host" ? "" : text;
  return true;
}

bool parse_launch_overlap(std::string_view text, Options& to) {
  if (text != "on" && text != "off") return false;
  to.launch_overlap = text == "on";
  return true;
}

bool parse_dump(std::string_view text, Options& to) {
  std::set<std::string_view> wanted;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view stage = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    wanted.insert(stage);
  }
  const bool all = wanted.erase("all") > 0;
  std::vector<std::string> names;
  for (const Stage& stage : stages())
    if (wanted.erase(stage.name) > 0 || all) names.emplace_back(stage.name);
  if (!wanted.empty()) return false;
  to.dump = std::move(names);
  return true;
}

template <std::string Options::*Member>
bool parse_text(std::string_view text, Options& to) {
  to.*Member = std::string(text);
  return true;
}

constexpr Row kRows[] = {
#define LIGERDSL_OPTION(name, section, values, default_value, help, meaning, ...) \
  {{name, values, default_value, help}, __VA_ARGS__},
#include "runtime/environment/options.def"
};

// A variable that another program defines, and the member that gets its text.
struct ForeignRow {
  const char* name;
  std::string Options::*member;
};

constexpr ForeignRow kForeignRows[] = {
#define LIGERDSL_FOREIGN(name, section, reader, meaning, member) {name, &Options::member},
#include "runtime/environment/options.def"
};

std::vector<OptionInfo> infos() {
  std::vector<OptionInfo> all;
  for (const Row& row : kRows) all.push_back(row.info);
  return all;
}

}  // namespace

std::optional<int64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view letters = "KMGT";
  int shift = 0;
  if (!text.empty()) {
    const size_t letter =
        letters.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
    if (letter != std::string_view::npos) {
      shift = 10 * static_cast<int>(letter + 1);
      text.remove_suffix(1);
    }
  }
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 ||
      value > (INT64_MAX >> shift))
    return std::nullopt;
  return value << shift;
}

Options parse_options(const std::function<const char*(const char*)>& get, bool privileged) {
  Options result;
  if (privileged) {
    result.ignored = true;
    return result;
  }
  for (const Row& row : kRows) {
    const char* text = get(row.info.name);
    if (text == nullptr || *text == '\0') continue;
    if (row.parse(text, result)) continue;
    result.problems.push_back(std::string(row.info.name) + ": expected " + row.info.values +
                              ", got \"" + text + "\"; the default (" + row.info.default_value +
                              ") is used");
  }
  for (const ForeignRow& row : kForeignRows)
    if (const char* text = get(row.name)) result.*row.member = text;
  return result;
}

const Options& options() {
  static const Options* const parsed = new Options(parse_options(
      [](const char* name) -> const char* { return getenv(name); }, getauxval(AT_SECURE) != 0));
  return *parsed;
}

std::span<const OptionInfo> option_table() {
  static const std::vector<OptionInfo>* const table = new std::vector<OptionInfo>(infos());
  return *table;
}

}  // namespace ligerdsl::runtime
