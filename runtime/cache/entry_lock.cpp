#include "runtime/cache/entry_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "runtime/environment/log.h"

namespace ligerdsl::runtime {
namespace {

// The first pauses of a wait are short, because small kernels compile in about 10 ms.
constexpr std::chrono::milliseconds kFirstPause{1}, kLongestPause{20};

}  // namespace

EntryLock::EntryLock(const CacheFolder& folder, const std::string& entry, const FileStamp& seen,
                     std::chrono::milliseconds longest)
    : folder_(folder),
      entry_(entry),
      file_(lock_name(entry)),
      seen_(seen),
      deadline_(Clock::now() + longest) {
  while (attempt() == Attempt::again) {
  }
}

EntryLock::~EntryLock() {
  if (!held()) return;
  unlinkat(folder_.fd(), file_.c_str(), 0);
  unlock();
}

// Unlocks explicitly: a child that another thread forked shares the lock and would keep it.
void EntryLock::unlock() {
  (void)flock(fd_, LOCK_UN);
  close(fd_);
  fd_ = -1;
}

bool EntryLock::removed_by_its_owner() const {
  struct stat info {};
  return fstat(fd_, &info) == 0 && info.st_nlink == 0;
}

EntryLock::Attempt EntryLock::attempt() {
  fd_ = openat(folder_.fd(), file_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
               0600);
  if (!held()) return Attempt::done;
  std::chrono::milliseconds pause = kFirstPause;
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const bool busy = errno == EWOULDBLOCK;
    if (errno == EINTR) continue;
    if (busy && !waited_)
      log(LogLevel::debug,
          "waiting for another process that is already creating cache entry " + entry_);
    waited_ |= busy;
    const bool late = Clock::now() >= deadline_;
    if (busy && late)
      log(LogLevel::info, "another process has not created cache entry " + entry_ +
                              " within the time limit; this process creates it, too");
    if (!busy || late || entry_changed()) {
      close(fd_);
      fd_ = -1;
      return Attempt::done;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
  if (!removed_by_its_owner()) return Attempt::done;
  unlock();
  // The previous owner removed the file after it stored the entry or failed to make it.
  return entry_changed() ? Attempt::done : Attempt::again;
}

}  // namespace ligerdsl::runtime
