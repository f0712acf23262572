// A lock on a file (flock) between threads and processes. The lock belongs to the open file
// description, not to the process.
#pragma once

#include <chrono>
#include <string>

namespace ligerdsl::runtime {

class FileLock {
 public:
  // Waits for the lock until `patience` has passed or the descriptor `stop` (-1: none) is readable.
  FileLock(int fd, std::chrono::milliseconds patience, int stop = -1);
  ~FileLock();  // unlocks, because a child that was forked meanwhile would keep the lock
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool locked() const { return locked_; }
  // Returns true if another holder had the lock during the whole wait.
  bool is_anothers() const;
  // Returns true if `stop` ended the wait.
  bool was_stopped() const { return stopped_; }
  int error() const { return error_; }  // errno of the last flock()

 private:
  int fd_, error_ = 0;
  bool locked_ = false, stopped_ = false;
};

// Returns the holder of this file's lock as text: "process 1234 (ligerdsl)" from /proc/locks, or
// "another process" if it is unknown.
std::string lock_holder(int fd);

}  // namespace ligerdsl::runtime
