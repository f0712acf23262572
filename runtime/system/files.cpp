#include "runtime/system/files.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ligerdsl::runtime {
namespace {

// Returns 0 for a folder (or a link to one), else an errno.
int not_a_folder(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return errno;
  return S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
}

}  // namespace

std::string error_text(int error) {
  return strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error";
}

File::~File() {
  if (fd_ >= 0) close(fd_);
}

bool read_all(int fd, char* to, size_t size) {
  while (size > 0) {
    const ssize_t got = ::read(fd, to, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got, size -= static_cast<size_t>(got);
  }
  return true;
}

// A signal that is already pending belongs to other code, and stays pending.
WriteSignalsHeld::WriteSignalsHeld() {
  sigset_t all, pending;
  sigemptyset(&all);
  sigemptyset(&ours_);
  sigpending(&pending);
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    sigaddset(&all, signal);
    if (sigismember(&pending, signal) == 0) sigaddset(&ours_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &all, &before_);
}

WriteSignalsHeld::~WriteSignalsHeld() {
  const int error = errno;
  const timespec at_once{};
  while (sigtimedwait(&ours_, nullptr, &at_once) > 0 || errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

bool write_all(int fd, std::string_view bytes) {
  const WriteSignalsHeld errors_alone;
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

std::optional<std::string> read_file(const std::string& path, size_t most, std::string* problem) {
  const auto refuse = [&](const std::string& why) {
    *problem = '"' + path + "\": " + why;
    return std::nullopt;
  };
  const File file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat info {};
  if (!file.good() || fstat(file.get(), &info) != 0) {
    *problem = locate_failure(path, errno).text();
    return std::nullopt;
  }
  if (S_ISDIR(info.st_mode)) return refuse(error_text(EISDIR));
  if (!S_ISREG(info.st_mode)) return refuse("it is not a regular file");
  const auto bytes = static_cast<size_t>(info.st_size);
  if (bytes > most)
    return refuse("it has " + std::to_string(bytes) + " bytes, expected at most " +
                  std::to_string(most));
  std::string content(bytes, '\0');
  errno = 0;
  if (!read_all(file.get(), content.data(), bytes))
    return refuse(errno != 0 ? error_text(errno) : "it became shorter while it was read");
  return content;
}

std::string PathFailure::text() const {
  return '"' + part + "\": " + error_text(error);
}

PathFailure make_directories(const std::string& path, mode_t mode) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    // An existing folder is no failure. For such a folder, mkdir may fail with other errors than
    // EEXIST: on a read-only file system, or in another user's folder. The caller checks the last
    // part.
    if (mkdir(part.c_str(), mode) != 0) {
      const int error = errno, why = not_a_folder(part);
      if (why != 0 && error != EEXIST) return {error, part};
      if (why != 0 && slash != std::string::npos) return {why, part};
    }
    if (slash == std::string::npos) return {};
  }
}

PathFailure locate_failure(const std::string& path, int error) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (const int why = not_a_folder(part)) return {why, part};
  }
  return {error, path};
}

}  // namespace ligerdsl::runtime
