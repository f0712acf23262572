#include "lib/tune/store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "runtime/system/file_lock.h"
#include "runtime/system/safe_open.h"
#include "runtime/system/status.h"

namespace ligerdsl::tune {

namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  runtime::fail(runtime::Status::invalid_argument, "the store of trials \"" + path + "\": " + what);
}

int open_store(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  std::string problem;
  if (!folder.empty() && !runtime::File(runtime::open_folder(folder, 0777, &problem)).good())
    refuse(path, problem);
  // O_NONBLOCK, because opening a pipe without a reader must not block the search.
  const int fd =
      runtime::open_to_write(path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK, 0666, &problem);
  if (fd < 0) refuse(path, problem);
  return fd;
}

std::string locked_text(int fd, const runtime::FileLock& lock, std::chrono::milliseconds patience) {
  const std::string holder = runtime::lock_holder(fd);
  if (lock.was_stopped())
    return "a trial was not written: " + holder + " holds the file's lock (flock)";
  return holder + " has held the file's lock (flock) for more than " +
         std::to_string(patience.count() / 1000) +
         " s; end that process, or name another file with --store";
}

// Returns true if the last line is incomplete because its writer was stopped.
bool torn(int fd) {
  const off_t size = lseek(fd, 0, SEEK_END);
  char last = '\n';
  return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

Store::Store(const std::string& path) : path_(path), file_(open_store(path)) {}

std::vector<Trial> Store::read() const {
  return read_trials(path_);
}

void Store::append(const Trial& trial, int stop, std::chrono::milliseconds patience) {
  std::string line = trial.to_json().dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const runtime::FileLock lock(file_.get(), patience, stop);
  // On a file system without locks, appends without a lock.
  if (lock.is_anothers()) refuse(path_, locked_text(file_.get(), lock, patience));
  if (torn(file_.get())) line.insert(0, "\n");
  const off_t before = lseek(file_.get(), 0, SEEK_END);
  if (runtime::write_all(file_.get(), line) && fdatasync(file_.get()) == 0) return;
  const int error = errno;
  if (ftruncate(file_.get(), before) != 0)
    refuse(path_, "a trial was written in part: " + runtime::error_text(error));
  refuse(path_, "a trial could not be written: " + runtime::error_text(error) +
                    "; earlier trials are stored");
}

namespace {

// Returns true if the line is the beginning of a line by append(), whose writer was stopped. Other
// invalid lines were not written by append().
bool was_torn(std::string_view line, const std::exception& error) {
  constexpr std::string_view begin = "{\"key\":";
  const auto* syntax = dynamic_cast<const JsonError*>(&error);
  return syntax && syntax->at_end && (line.starts_with(begin) || begin.starts_with(line));
}

}  // namespace

std::vector<Trial> read_trials(const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 30, kPart = size_t{1} << 20,
                   kLongestLine = size_t{16} << 20;
  const runtime::File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.good()) refuse(path, runtime::locate_failure(path, errno).text());
  std::string text;
  for (;;) {  // reads in parts, because a pipe has no size
    const size_t before = text.size();
    text.resize(before + kPart);
    const ssize_t got = read(file.get(), text.data() + before, kPart);
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, runtime::locate_failure(path, errno).text());
    if (got == 0) break;
    const size_t ended = text.rfind('\n');
    if (text.size() - (ended == std::string::npos ? 0 : ended) > kLongestLine)
      refuse(path,
             "expected one trial per line, as `ligerdsl tune` writes them, got a line longer than "
             "16 MiB; is this a store of trials?");
    if (text.size() > kMostBytes)
      refuse(path, "the file is larger than 1 GiB; split it, or keep only its last lines");
  }
  std::vector<Trial> trials;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.empty() || line == "\r") continue;
    try {
      trials.push_back(Trial::from_json(parse_strict(line)));
    } catch (const std::exception& error) {
      if (!was_torn(line, error))
        refuse(path, "line " + std::to_string(number) +
                         ": expected a trial, as `ligerdsl tune` writes them: " + error.what());
    }
  }
  return trials;
}

}  // namespace ligerdsl::tune
