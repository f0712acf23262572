#include "lib/tune/table_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "runtime/files.h"
#include "runtime/status.h"

namespace ligerdsl::tune {

std::pair<std::string, Json> table_entry(const Trial& winner) {
  const lib::TunedDevice device{winner.device.at("arch"), winner.device.at("units"), winner.device.at("model")};
  Json entry = {{"config", winner.config},
                {"operation", winner.operation},
                {"ratio", winner.ratio},
                {"us", winner.us},
                {"heuristic_us", winner.heuristic_us},
                {"problems", winner.problems},
                {"driver", winner.device.value("driver", 0)},
                {"build", winner.build},
                {"date", winner.date}};
  return {lib::tuned_key(winner.kernel, winner.version, winner.options, device), std::move(entry)};
}

TableEntries entries_of(const lib::TunedTable& table) {
  TableEntries entries;
  for (size_t i = 0; i < table.size(); ++i) {
    const auto entry = table.entry(i);
    Json json = Json::parse(entry.rest, nullptr, /*allow_exceptions=*/false);
    const auto is = [&](const char* name, bool (Json::*type)() const noexcept) {
      return !json.contains(name) || (json[name].*type)();
    };
    if (!json.is_object() || !is("config", &Json::is_string) || !is("ratio", &Json::is_number))
      runtime::fail(runtime::Status::invalid_argument,
                    "table \"" + table.name() + "\", line " + std::to_string(i + 2) +
                        ": expected a JSON object whose \"config\" is a string and whose \"ratio\" is a number");
    entries.emplace(entry.key, std::move(json));
  }
  return entries;
}

void merge(TableEntries* into, const TableEntries& others) {
  for (const auto& [key, entry] : others) {
    const auto [at, added] = into->try_emplace(key, entry);
    if (!added && entry.value("ratio", 1.0) < at->second.value("ratio", 1.0)) at->second = entry;
  }
}

namespace {

[[noreturn]] void cannot_write(const std::string& path, int error) {
  runtime::fail(runtime::Status::invalid_argument,
                "a table of tuned kernels: " + runtime::locate_failure(path, error).text());
}

}  // namespace

void write_table(const std::string& path, const TableEntries& entries) {
  std::error_code none;
  std::filesystem::path target = std::filesystem::canonical(path, none);  // of a link, the file
  if (none) target = path;
  const std::string text = table_text(entries), part = target.string() + "." + std::to_string(getpid());
  const auto status = std::filesystem::status(target, none);
  const bool special = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  const std::string& written = special ? path : part;
  const runtime::File file(open(written.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.good()) cannot_write(path, errno);
  if (special) {
    if (!runtime::write_all(file.get(), text)) cannot_write(path, errno);
    return;
  }
  if (std::filesystem::exists(status)) fchmod(file.get(), static_cast<mode_t>(status.permissions()));
  if (runtime::write_all(file.get(), text) && fsync(file.get()) == 0 && rename(part.c_str(), target.c_str()) == 0)
    return;
  const int error = errno;
  unlink(part.c_str());
  cannot_write(path, error);
}

std::string table_text(const TableEntries& entries) {
  std::string text = "{\"ligerdsl_tuned_kernels\": 1, \"entries\": {\n";
  for (const auto& [key, entry] : entries) {
    // As the library looks for it: the key has no character that JSON escapes, and "config" stands first.
    text += '"' + key + "\": {\"config\": " + entry.at("config").dump();
    for (const auto& [name, value] : entry.items()) {
      if (name != "config") text += ", " + Json(name).dump() + ": " + value.dump();
    }
    text += "},\n";
  }
  return text + "\"\": {}}}\n";
}

}  // namespace ligerdsl::tune
