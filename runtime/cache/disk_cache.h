// Compiled kernels on disk: one file per entry (cache_entry.h), any damage is a miss.
//
// Place: the directory given, else LIGERDSL_CACHE_DIR, else $XDG_CACHE_HOME/ligerdsl, else $HOME/.cache/ligerdsl;
// created 0700. A directory that is a symlink, not ours, or writable by group or world is refused: the cache is off,
// one warning is logged, and work goes on in memory (with mode `required` that is CACHE_ERROR instead). Nothing read
// from here is ever trusted for its content alone: ownership and permissions protect against poisoning, the digest
// against corruption.
//
// Reading checks the header against the file's name and size before any memory is taken for the payload, then the
// digest; every mismatch, error or strange file type is a miss. What was just written is not read back.
//
// Size: entries have at most the limit's number of bytes, give or take. A process looks at the folder at its first
// store and whenever it stored another 1/64 of the limit since, and then, if entries have more than the limit, removes
// those that were not used for longest, down to 7/8 of it. So P processes that store at the same time pass the limit
// by P/64 of it at most, and a store costs no more than before but for one listing of the folder in many. The time of
// last use is the file's modification time, which a hit sets when it is older than a minute; it does not depend on
// how the file system keeps access times. An entry larger than the limit is not stored.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/cache/cache_folder.h"
#include "runtime/environment/options.h"
#include "runtime/system/sha256.h"

namespace ligerdsl::runtime {

inline constexpr int64_t kDefaultCacheLimit = int64_t{1} << 30;  // bytes

class DiskCache {
 public:
  // Opens or creates the directory. `limit_bytes` 0: 1 GiB. Throws CACHE_ERROR only with CacheMode::required.
  DiskCache(const std::string& directory, CacheMode mode, int64_t limit_bytes = 0);

  bool readable() const { return folder_.is_open(); }
  bool writable() const { return folder_.is_open() && mode_ != CacheMode::read_only; }
  const CacheFolder& folder() const { return folder_; }
  const std::string& directory() const { return folder_.path(); }  // empty: none could be named
  const std::string& why_off() const { return why_off_; }          // empty while the cache works
  int64_t limit_bytes() const { return limit_bytes_; }

  // Both may be called from any thread and from any number of processes. The suffix is one of cache_entry.h. The label
  // is for people; its build is set here.
  std::optional<std::string> read(const Digest& key, const char* suffix) const;
  void write(const Digest& key, const char* suffix, std::string_view payload, CacheLabel label = {}) const;

  // Identifies the entry that is there now; see single_flight.h.
  FileStamp stamp(const Digest& key, const char* suffix) const { return folder_.stamp(entry_name(key, suffix)); }

  CacheUsage usage() const { return folder_.usage(); }

 private:
  void refuse(const std::string& reason);
  void report_unwritten(const std::string& reason) const;
  void keep_limit(const std::string& stored, int64_t bytes) const;

  CacheMode mode_;
  int64_t limit_bytes_;
  CacheFolder folder_;
  std::string why_off_;
  mutable std::atomic<bool> looked_{false};
  mutable std::atomic<int64_t> stored_bytes_{0};  // since this object looked at the folder
};

// Where the cache lives by the rules above; empty when HOME is unset too.
std::string default_cache_directory(const Options& options);

}  // namespace ligerdsl::runtime
