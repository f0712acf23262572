// Ensures that one thread at a time makes a cache entry. The threads of all contexts of this
// process, and the processes that share a cache folder, take part. While one thread (the maker)
// makes the entry, the others wait, and then use its result.
//
//   const FileStamp seen = disk.stamp(key, suffix);
//   ... look into the cache: a miss ...
//   SingleFlight flight(disk, key, suffix, seen);
//   if (flight.made()) ...            // another thread has made it: use its bytes
//   if (flight.entry_changed()) ...   // another process may have made it: look again
//   ... make it; flight.land(bytes); store it ...
//
// If the maker fails, it does not call land(), and the next waiting thread becomes the maker. A
// forked child does not wait for threads of its parent.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "runtime/cache/disk_cache.h"
#include "runtime/cache/entry_lock.h"

namespace ligerdsl::runtime {

class SingleFlight {
 public:
  // Longest wait for another process, which may be stopped or run on a machine that has failed.
  static constexpr std::chrono::milliseconds kLongestWait{30000};

  SingleFlight(const DiskCache& disk, const Digest& key, const char* suffix, const FileStamp& seen,
               std::chrono::milliseconds longest = kLongestWait);
  ~SingleFlight();
  SingleFlight(const SingleFlight&) = delete;
  SingleFlight& operator=(const SingleFlight&) = delete;

  // Returns the bytes that another thread made, or null if this thread is the maker.
  const std::shared_ptr<const std::string>& made() const { return made_; }
  // Returns true if the stamp of the entry on disk is no longer `seen`.
  bool entry_changed() const { return lock_ && lock_->entry_changed(); }
  bool waited() const { return waited_ || (lock_ && lock_->waited()); }

  // Passes the result to the waiting threads. Call it before storing the result.
  void land(std::string bytes);

 private:
  struct Flight;
  struct Flights;
  static Flights& flights();
  void join();
  void leave();

  std::string name_;
  std::shared_ptr<Flight> flight_;  // null unless this thread is the maker
  std::shared_ptr<const std::string> made_;
  std::optional<EntryLock> lock_;
  bool waited_ = false;
};

}  // namespace ligerdsl::runtime
