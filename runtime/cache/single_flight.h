// One maker of a cache entry at a time: among the threads of this process, whatever their contexts, and among the
// processes that share a cache folder. The others wait and take what it made.
//
//   const FileStamp seen = disk.stamp(key, suffix);
//   ... look into the cache: a miss ...
//   SingleFlight flight(disk, key, suffix, seen);
//   if (flight.made()) ...            // another thread made it meanwhile: take its bytes
//   if (flight.entry_changed()) ...   // another process may have: look into the cache again
//   ... make it; flight.land(bytes); store it ...
//
// A maker that fails leaves the flight without landing, and the next of those who wait makes the entry. A forked child
// does not wait for threads of its parent.
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
  // How long one process waits for another, which may be stopped or on a machine that is gone.
  static constexpr std::chrono::milliseconds kLongestWait{30000};

  SingleFlight(const DiskCache& disk, const Digest& key, const char* suffix, const FileStamp& seen,
               std::chrono::milliseconds longest = kLongestWait);
  ~SingleFlight();
  SingleFlight(const SingleFlight&) = delete;
  SingleFlight& operator=(const SingleFlight&) = delete;

  // The bytes that another thread made; null if this thread is the maker.
  const std::shared_ptr<const std::string>& made() const { return made_; }
  // The entry on disk is another one than was seen.
  bool entry_changed() const { return lock_ && lock_->entry_changed(); }
  bool waited() const { return waited_ || (lock_ && lock_->waited()); }

  // Gives the threads that wait what this one made, before it is stored.
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
