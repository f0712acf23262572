// The lock of a file (flock) among threads and processes. It belongs to the opened file, not to the process.
#pragma once

#include <chrono>
#include <string>

namespace ligerdsl::runtime {

class FileLock {
 public:
  // Waits for the lock, at most for `patience`, and not once `stop` is readable (-1: nothing stops it).
  FileLock(int fd, std::chrono::milliseconds patience, int stop = -1);
  ~FileLock();  // unlocks: closing alone would leave the lock to a child that was forked meanwhile
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool locked() const { return locked_; }
  // True if somebody else had the lock all the time.
  bool is_anothers() const;
  // True if `stop` ended the wait.
  bool was_stopped() const { return stopped_; }
  int error() const { return error_; }  // errno of the last flock()

 private:
  int fd_, error_ = 0;
  bool locked_ = false, stopped_ = false;
};

// Names the holder of this file's lock by /proc/locks, "process 1234 (ligerdsl)", or returns "another process".
std::string lock_holder(int fd);

}  // namespace ligerdsl::runtime
