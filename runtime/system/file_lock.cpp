#include "runtime/system/file_lock.h"

#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <thread>

namespace ligerdsl::runtime {
namespace {

bool is_readable(int fd) {
  pollfd wait{fd, POLLIN, 0};
  return fd >= 0 && poll(&wait, 1, 0) > 0;
}

}  // namespace

// Polls, because a blocking flock() has no time limit.
FileLock::FileLock(int fd, std::chrono::milliseconds patience, int stop) : fd_(fd) {
  constexpr std::chrono::microseconds kFirstPause{20}, kLongestPause{1000};
  const auto until = std::chrono::steady_clock::now() + patience;
  for (std::chrono::microseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    locked_ = flock(fd, LOCK_EX | LOCK_NB) == 0;
    error_ = locked_ ? 0 : errno;
    if (!is_anothers() || std::chrono::steady_clock::now() >= until) return;
    if (is_readable(stop)) {
      stopped_ = true;
      return;
    }
    std::this_thread::sleep_for(pause);
  }
}

FileLock::~FileLock() {
  if (locked_) flock(fd_, LOCK_UN);
}

bool FileLock::is_anothers() const {
  return error_ == EWOULDBLOCK || error_ == EINTR;
}

// A line of /proc/locks is "1: FLOCK ADVISORY WRITE 1234 fe:00:56789 0 EOF", or "1: -> FLOCK ..."
// for a waiting process. On overlayfs and btrfs the line has another device than stat(), so only
// the inode is compared.
std::string lock_holder(int fd) {
  constexpr const char* kUnknown = "another process";
  struct stat info {};
  if (fstat(fd, &info) != 0) return kUnknown;
  const std::string inode = ":" + std::to_string(info.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, access, process, file, name;
    words >> number >> kind >> advisory >> access >> process >> file;
    if (kind != "FLOCK" || !file.ends_with(inode) || process.empty() || process == "0" ||
        process[0] == '-')
      continue;
    std::getline(std::ifstream("/proc/" + process + "/comm"), name);
    return "process " + process + (name.empty() ? "" : " (" + name + ")");
  }
  return kUnknown;
}

}  // namespace ligerdsl::runtime
