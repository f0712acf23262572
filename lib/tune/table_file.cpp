#include "lib/tune/table_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <random>
#include <system_error>
#include <tuple>

#include "runtime/system/file_lock.h"
#include "runtime/system/files.h"
#include "runtime/system/safe_open.h"
#include "runtime/system/status.h"

namespace ligerdsl::tune {

lib::TunedDevice device_of(const Json& device) {
  return {device.at("arch"), device.at("units"), device.at("model")};
}

std::pair<std::string, Json> table_entry(const Trial& winner) {
  Json entry = {{"config", winner.config},
                {"operation", winner.operation},
                {"ratio", winner.ratio},
                {"us", winner.us},
                {"heuristic_us", winner.heuristic_us},
                {"problems", winner.problems},
                {"driver", winner.device.value("driver", 0)},
                {"build", winner.build},
                {"date", winner.date}};
  return {lib::tuned_key(winner.kernel, winner.version, winner.options, device_of(winner.device)),
          std::move(entry)};
}

namespace {

// Returns the reason why an entry is invalid, or "". `config` is the configuration that the library
// reads from the entry.
std::string fault_of(const Json& entry, std::string_view config) {
  const auto expected = [&](const char* name, const char* what, const Json* got) {
    return std::string("expected \"") + name + "\" to be " + what + ", got " +
           (got ? shown(*got) : "none");
  };
  if (!entry.is_object()) return "expected a JSON object";
  const auto is = [](bool (Json::*type)() const noexcept) {
    return [type](const Json& it) { return (it.*type)(); };
  };
  const std::tuple<const char*, const char*, std::function<bool(const Json&)>> members[] = {
      {"ratio", "a number above 0", is_positive},
      {"problems", "a list of strings", are_strings},
      {"us", "a list of numbers above 0", are_positive},
      {"heuristic_us", "a list of numbers above 0", are_positive},
      {"operation", "a string", is(&Json::is_string)},
      {"imported_from", "a string", is(&Json::is_string)}};
  for (const auto& [name, what, holds] : members) {
    const auto found = entry.find(name);
    if (found != entry.end() && !holds(*found)) return expected(name, what, &*found);
  }
  const auto at = entry.find("config");
  // The library decodes no escapes in keys and configurations.
  if (at == entry.end() || *at != std::string(config))
    return expected("config", "a string without escapes", at == entry.end() ? nullptr : &*at);
  return "";
}

Json parsed_entry(std::string_view text, std::string* fault) {
  try {
    Json json = parse_strict(text);
    constexpr std::string_view before = "{\"config\": \"";
    const std::string_view config = text.substr(std::min(before.size(), text.size()));
    *fault = fault_of(json, config.substr(0, config.find('"')));
    return json;
  } catch (const std::exception& error) {
    *fault = std::string("expected a JSON object, got: ") + error.what();
    return {};
  }
}

}  // namespace

TableEntries entries_of(const lib::TunedTable& table) {
  TableEntries entries;
  for (size_t i = 0; i < table.size(); ++i) {
    const auto entry = table.entry(i);
    std::string fault;
    Json json = parsed_entry(entry.rest, &fault);
    if (!fault.empty())
      runtime::fail(runtime::Status::invalid_argument,
                    "table \"" + table.name() + "\", line " + std::to_string(i + 2) + ": " + fault);
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

[[noreturn]] void cannot_write(const std::string& problem) {
  runtime::fail(runtime::Status::invalid_argument, "a table of tuned kernels: " + problem);
}

// Returns the folder and name of the table's file, after following symbolic links that are safe to
// follow.
std::unique_ptr<runtime::Place> place_of(const std::string& path) {
  std::string problem;
  auto place = runtime::find_place(path, &problem);
  if (!place) cannot_write(problem);
  if (const std::string why = place->foreign_file(); !why.empty())
    cannot_write('"' + path + "\": " + why);
  return place;
}

// A temporary file next to the table, with a unique name.
class Part {
 public:
  explicit Part(const runtime::Place& target)
      : folder_(target.folder.get()),
        target_(target.name),
        name_(target_ + "." + std::to_string(std::random_device()())),
        file_(openat(folder_, name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     0666)),
        error_(file_.good() ? 0 : errno) {}
  ~Part() {
    if (file_.good())
      unlinkat(folder_, name_.c_str(), 0);  // removes the file if it was not renamed
  }
  Part(const Part&) = delete;

  int error() const { return error_; }
  bool write(const std::string& text, const struct stat* like) const {
    if (like) fchmod(file_.get(), like->st_mode & 07777);
    return runtime::write_all(file_.get(), text) && fsync(file_.get()) == 0;
  }
  bool replace() const { return renameat(folder_, name_.c_str(), folder_, target_.c_str()) == 0; }
  // Gives the file its final name, unless a file with this name was created meanwhile.
  bool put() const {
    if (linkat(folder_, name_.c_str(), folder_, target_.c_str(), 0) == 0) return true;
    struct stat there {};
    if (errno == EEXIST && fstatat(folder_, target_.c_str(), &there, 0) == 0) return true;
    return errno != ENOSPC && replace();  // no hard links here, or a dangling symbolic link
  }

 private:
  int folder_;
  std::string target_, name_;
  runtime::File file_;
  int error_;
};

// Locks a table against other updates. After the wait for the lock, checks that the path still
// names the locked file.
class LockedTable {
 public:
  // Creates an empty table if there is none.
  LockedTable(const std::string& path, int stop) : place_(place_of(path)) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!try_to_lock(path, stop)) {
      if (lock_ && (lock_->was_stopped() || std::chrono::steady_clock::now() > until))
        runtime::fail(runtime::Status::invalid_argument,
                      "table \"" + path + "\" was not updated: " + why(*lock_));
    }
  }

 private:
  static constexpr std::chrono::seconds kPatience{30};

  std::string why(const runtime::FileLock& lock) const {
    const std::string holder = runtime::lock_holder(file_->get());
    return lock.was_stopped()
               ? "the wait for its lock (flock), which " + holder + " holds, was stopped"
               : "its lock (flock) was not free for 30 s; " + holder +
                     " holds it; wait until that process has ended, or end it";
  }

  bool try_to_lock(const std::string& path, int stop) {
    lock_.reset();
    file_ = std::make_unique<runtime::File>(openat(place_->folder.get(), place_->name.c_str(),
                                                   O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!file_->good() && errno == ENOENT) {
      const Part part(*place_);
      if (part.error() != 0) cannot_write(path, part.error());
      if (!part.write(table_text({}), nullptr) || !part.put()) cannot_write(path, errno);
      return false;
    }
    if (!file_->good()) cannot_write(path, errno);
    // On a file system without locks, the last writer wins.
    constexpr std::chrono::milliseconds kPart{100};  // waits in parts; looks up the name after each
    lock_ = std::make_unique<runtime::FileLock>(file_->get(), kPart, stop);
    if (lock_->is_anothers()) return false;
    struct stat held {
    }, named{};
    return fstat(file_->get(), &held) == 0 &&
           fstatat(place_->folder.get(), place_->name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == named.st_dev && held.st_ino == named.st_ino;
  }

  std::unique_ptr<runtime::Place> place_;
  std::unique_ptr<runtime::File> file_;
  std::unique_ptr<runtime::FileLock> lock_;
};

// Returns true for an existing path that is not a regular file, such as a pipe or a device.
bool is_special(const std::string& target) {
  std::error_code none;
  const auto status = std::filesystem::status(target, none);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

TableEntries entries_there(const std::string& path) {
  std::error_code error;
  if (is_special(path)) return {};
  if (std::filesystem::file_size(path, error) == 0 || error == std::errc::no_such_file_or_directory)
    return {};
  return entries_of(lib::TunedTable::read(path));
}

}  // namespace

void write_table(const std::string& path, const TableEntries& entries) {
  const std::string text = table_text(entries);
  if (is_special(path)) {
    std::string problem;
    const runtime::File file(runtime::open_to_write(path, O_WRONLY, 0666, &problem));
    if (!file.good()) cannot_write(problem);
    if (!runtime::write_all(file.get(), text)) cannot_write(path, errno);
    return;
  }
  const std::unique_ptr<runtime::Place> place = place_of(path);
  struct stat before {};
  const bool exists =
      fstatat(place->folder.get(), place->name.c_str(), &before, AT_SYMLINK_NOFOLLOW) == 0;
  const Part part(*place);
  if (part.error() != 0) cannot_write(path, part.error());
  if (!part.write(text, exists ? &before : nullptr) || !part.replace()) cannot_write(path, errno);
}

TableEntries entries_to_update(const std::string& path) {
  const std::unique_ptr<runtime::Place> place =
      place_of(path);  // refuses a file with another owner before it is read
  TableEntries entries = entries_there(path);
  if (is_special(path)) {
    const runtime::File file(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.good() && errno != ENXIO)
      cannot_write(path, errno);  // ENXIO: a pipe without a reader yet
    return entries;
  }
  const Part part(*place);
  if (part.error() != 0) cannot_write(path, part.error());
  return entries;
}

void update_table(const std::string& path, const std::function<bool(TableEntries*)>& change,
                  int stop) {
  if (is_special(path)) {
    TableEntries entries;
    if (change(&entries)) write_table(path, entries);
    return;
  }
  const LockedTable locked(path, stop);
  TableEntries entries = entries_there(path);
  if (change(&entries)) write_table(path, entries);
}

std::string table_text(const TableEntries& entries) {
  std::string text = "{\"ligerdsl_tuned_kernels\": 1, \"entries\": {\n";
  for (const auto& [key, entry] : entries) {
    // The library expects this form: the key has no character that JSON escapes, and "config" is
    // the first member.
    text += '"' + key + "\": {\"config\": " + entry.at("config").dump();
    for (const auto& [name, value] : entry.items()) {
      if (name != "config") text += ", " + Json(name).dump() + ": " + value.dump();
    }
    text += "},\n";
  }
  return text + "\"\": {}}}\n";
}

}  // namespace ligerdsl::tune
