#include "lib/cli/cache/warm_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "lib/text/output.h"
#include "lib/tune/strict_json.h"
#include "runtime/system/files.h"

namespace ligerdsl::cli {

namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;

std::string read_text(const std::string& path) {
  errno = 0;
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& from = path == "-" ? std::cin : file;
  std::string text;
  char buffer[65536];
  while (from.read(buffer, sizeof buffer) || from.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(from.gcount()));
    if (text.size() > kMaxFileBytes)
      throw Failure(kUsage, fmt::format("{}: expected a file of at most {}, got a larger one", path,
                                        format_bytes(kMaxFileBytes)));
  }
  if (!from.eof())
    throw Failure(kUsage, fmt::format("{} cannot be read: {}", path,
                                      runtime::error_text(errno ? errno : EIO)));
  return text;
}

Json parse_json(const std::string& text, const std::string& where) {
  try {
    return tune::parse_strict(text);
  } catch (const tune::JsonError& error) {
    throw Failure(
        kUsage,
        fmt::format(
            R"({}: {}; expected a description such as {{"operation": "softmax_forward", "n_cols": 4096}})",
            where, error.what()));
  }
}

std::string text_of(const Json& value, const std::string& name, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
  if (value.is_number()) return value.dump();
  throw Failure(kUsage,
                fmt::format("{}: expected \"{}\" to be a number, a string, true or false, got {}",
                            where, tune::clipped(name), tune::shown(value)));
}

WarmEntry entry_of(const Json& value, const std::string& where) {
  if (!value.is_object() || !value.contains("operation"))
    throw Failure(kUsage, fmt::format("{}: expected an object with \"operation\", got {}", where,
                                      tune::shown(value)));
  WarmEntry entry{.where = where};
  for (const auto& [name, field] : value.items()) {
    const std::string text = text_of(field, name, where);
    if (name == "operation") {
      entry.operation = text;
    } else if (name == "target") {
      entry.target = text;
    } else if (name == "ptx") {
      entry.ptx = text;
    } else if (name == "multiprocessors") {
      const bool fits =
          field.is_number_integer() && field.get<double>() >= 1 && field.get<double>() <= 65536;
      if (!fits)
        throw Failure(
            kUsage,
            fmt::format("{}: \"multiprocessors\": expected an integer from 1 to 65536, got {}",
                        where, tune::clipped(text)));
      entry.multiprocessors = field.get<int>();
    } else {
      entry.settings.push_back(name + "=" + text);
    }
  }
  return entry;
}

}  // namespace

std::vector<WarmEntry> read_warm_file(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<WarmEntry> entries;
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '[') {
    size_t number = 0;
    for (const Json& value : parse_json(text, path))
      entries.push_back(entry_of(value, fmt::format("{}, element {}", path, ++number)));
  } else {
    size_t number = 0;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string line = text.substr(begin, end - begin),
                        where = fmt::format("{}:{}", path, ++number);
      if (line.find_first_not_of(" \t\r") != std::string::npos)
        entries.push_back(entry_of(parse_json(line, where), where));
      begin = end + 1;
    }
  }
  if (entries.empty())
    throw Failure(kUsage, path + ": expected one or more descriptions, got none");
  return entries;
}

int parse_ptx_version(const std::string& text, const std::string& where) {
  const bool digits = text.size() == 3 && text[1] == '.' && text[0] >= '1' && text[0] <= '9' &&
                      text[2] >= '0' && text[2] <= '9';
  if (!digits)
    throw Failure(kUsage, fmt::format("{}: expected a PTX version like 9.0, got '{}'", where,
                                      tune::clipped(text)));
  return 10 * (text[0] - '0') + (text[2] - '0');
}

}  // namespace ligerdsl::cli
