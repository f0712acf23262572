// Lock between processes on an entry of the disk cache. The owner of the lock makes the entry.
//
// The lock is a flock() on a file next to the entry, ".ligerdsl-KEY.art.lock". The owner removes
// the file before it unlocks. If a process dies, the system unlocks; the next process uses the
// remaining file, or trim() removes it with the other temporary files. If the file system has no
// locks, no process waits, and several processes may compile the same kernel.
#pragma once

#include <chrono>
#include <string>

#include "runtime/cache/cache_folder.h"

namespace ligerdsl::runtime {

class EntryLock {
 public:
  // Waits until this process owns the lock, the entry's stamp is no longer `seen`, or `longest` has
  // passed.
  EntryLock(const CacheFolder& folder, const std::string& entry, const FileStamp& seen,
            std::chrono::milliseconds longest);
  ~EntryLock();
  EntryLock(const EntryLock&) = delete;
  EntryLock& operator=(const EntryLock&) = delete;

  bool held() const { return fd_ >= 0; }
  bool waited() const { return waited_; }
  bool entry_changed() const { return folder_.stamp(entry_) != seen_; }

 private:
  enum class Attempt { done, again };
  Attempt attempt();
  bool removed_by_its_owner() const;
  void unlock();

  using Clock = std::chrono::steady_clock;
  const CacheFolder& folder_;
  std::string entry_, file_;
  FileStamp seen_;
  Clock::time_point deadline_;
  int fd_ = -1;
  bool waited_ = false;
};

}  // namespace ligerdsl::runtime
