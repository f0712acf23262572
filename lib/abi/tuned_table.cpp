#include "lib/abi/tuned_table.h"

#include <algorithm>

#include "lib/abi/failure.h"
#include "runtime/system/files.h"

namespace ligerdsl::lib {

namespace {

constexpr std::string_view kHead = "{\"ligerdsl_tuned_kernels\": ", kVersion = "1",
                           kEntries = ", \"entries\": {", kLast = "\"\": {}}}",
                           kConfig = "\": {\"config\": \"";
constexpr size_t kMostBytes = size_t{1} << 30;

[[noreturn]] void refuse(const std::string& name, size_t line, const std::string& what) {
  fail(Status::invalid_argument,
       "table \"" + name + "\", line " + std::to_string(line) + ": " + what);
}

// Removes the text up to and including `end` from `text`, or all of it if there is no `end`.
// Returns the part before `end`.
std::string_view take_until(std::string_view* text, char end) {
  const size_t at = std::min(text->find(end), text->size());
  const std::string_view taken = text->substr(0, at);
  text->remove_prefix(std::min(at + 1, text->size()));
  return taken;
}

// Returns the key of a line. Keys have no quotation marks and no backslashes.
std::string_view key_of(std::string_view line) {
  return line.substr(1, line.find('"', 1) - 1);
}

}  // namespace

namespace {

// Returns the key up to " @ ", without the device.
std::string key_of_any_device(std::string_view kernel, int version, std::string_view options) {
  std::string key;
  key.reserve(kernel.size() + options.size() + 80);
  key.append(kernel)
      .append("/")
      .append(std::to_string(version))
      .append(" ")
      .append(options)
      .append(" @ ");
  return key;
}

// Returns the key up to the last "/", without the device's model.
std::string key_of_any_model(std::string_view kernel, int version, std::string_view options,
                             const TunedDevice& device) {
  std::string key = key_of_any_device(kernel, version, options);
  key.append(device.arch).append("/").append(std::to_string(device.units)).append("/");
  return key;
}

void append_model(const TunedDevice& device, std::string* key) {
  for (const char c : device.model)
    *key += c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ' ? '_' : c;
}

}  // namespace

std::string tuned_key(std::string_view kernel, int version, std::string_view options,
                      const TunedDevice& device) {
  std::string key = key_of_any_model(kernel, version, options, device);
  append_model(device, &key);
  return key;
}

MetaValues config_values(std::string_view text) {
  MetaValues values;
  while (!text.empty()) {
    const std::string_view given = take_until(&text, ' ');
    std::string_view field = given;
    const std::string name(take_until(&field, '='));
    if (name.empty() || field.empty() || !values.emplace(name, field).second)
      fail(Status::invalid_argument,
           "a configuration: expected \"name=value name=value\", each name once, got \"" +
               std::string(given) + "\"" + (values.contains(name) ? " after the same name" : ""));
  }
  return values;
}

TunedTable::TunedTable(std::string text, std::string name)
    : text_(std::move(text)), name_(std::move(name)) {
  std::string_view rest = text_, head = take_until(&rest, '\n');
  if (head.starts_with("\xef\xbb\xbf"))
    refuse(name_, 1,
           "the file begins with a byte order mark; save it as UTF-8 without a byte order mark");
  if (head.ends_with('\r'))
    refuse(name_, 1, "the line ends in CR LF; convert the file to lines that end in LF alone");
  if (!head.starts_with(kHead) || !head.ends_with(kEntries))
    refuse(name_, 1, "expected a table of tuned kernels, as `ligerdsl tune --export` writes it");
  head.remove_prefix(kHead.size());
  head.remove_suffix(kEntries.size());
  constexpr size_t kShown = 20;
  if (head != kVersion)
    refuse(name_, 1,
           "expected format " + std::string(kVersion) + ", got " +
               std::string(head.substr(0, kShown)) +
               "; if the table is newer than this library, update the library, or tune again");
  std::string_view previous;
  for (size_t number = 2;; ++number) {
    if (rest.empty())
      refuse(name_, number,
             "the file ends before its last line, expected " + std::string(kLast) +
                 "; is the file truncated?");
    const auto begin = static_cast<size_t>(rest.data() - text_.data());
    const std::string_view line = take_until(&rest, '\n');
    if (line == kLast) break;
    const size_t end = line.starts_with('"') ? line.find('"', 1) : std::string_view::npos;
    if (end == std::string_view::npos || !line.substr(end).starts_with(kConfig) ||
        !line.ends_with("},") || line.find('"', end + kConfig.size()) == std::string_view::npos)
      refuse(name_, number, "expected an entry, \"KEY\": {\"config\": \"...\", ...},");
    const std::string_view key = line.substr(1, end - 1);
    if (number > 2 && key <= previous)
      refuse(name_, number,
             "expected sorted keys, each once; `ligerdsl table merge` writes them in order");
    previous = key;
    lines_.push_back(static_cast<uint32_t>(begin));
  }
  if (rest.find_first_not_of(" \t\r\n") != std::string_view::npos)
    refuse(name_, size() + 3, "expected the end of the file, got more text");
}

TunedTable TunedTable::read(const std::string& path) {
  std::string problem;
  std::optional<std::string> text = runtime::read_file(path, kMostBytes, &problem);
  if (!text) fail(Status::invalid_argument, "a table of tuned kernels: " + problem);
  return TunedTable(*std::move(text), path);
}

TunedTable::Entry TunedTable::entry(size_t i) const {
  std::string_view rest = std::string_view(text_).substr(lines_[i]);
  const std::string_view line = take_until(&rest, '\n'), key = key_of(line);
  return {key, line.substr(key.size() + 4, line.size() - key.size() - 5)};
}

std::vector<uint32_t>::const_iterator TunedTable::first_from(std::string_view key) const {
  const std::string_view text = text_;
  return std::lower_bound(
      lines_.begin(), lines_.end(), key,
      [&](uint32_t line, std::string_view it) { return key_of(text.substr(line)) < it; });
}

bool TunedTable::has(std::string_view kernel, int version, std::string_view options,
                     bool gpu) const {
  const std::string before = key_of_any_device(kernel, version, options);
  const std::string_view text = text_;
  for (auto line = first_from(before); line != lines_.end(); ++line) {
    const std::string_view key = key_of(text.substr(*line));
    if (!key.starts_with(before)) return false;
    if (key.substr(before.size()).starts_with("sm_") == gpu) return true;
  }
  return false;
}

std::optional<TunedTable::Found> TunedTable::find(std::string_view kernel, int version,
                                                  std::string_view options,
                                                  const TunedDevice& device) const {
  std::string key = key_of_any_model(kernel, version, options, device);
  const size_t any_model = key.size();
  append_model(device, &key);
  const std::string_view text = text_;
  for (const std::string_view wanted :
       {std::string_view(key), std::string_view(key).substr(0, any_model)}) {
    const auto line = first_from(wanted);
    if (line == lines_.end()) continue;
    const std::string_view found = key_of(text.substr(*line));
    if (wanted.size() > any_model ? found != wanted : !found.starts_with(wanted)) continue;
    const std::string_view config = text.substr(*line + 1 + found.size() + kConfig.size());
    return Found{config.substr(0, config.find('"')), found.substr(any_model)};
  }
  return std::nullopt;
}

}  // namespace ligerdsl::lib
