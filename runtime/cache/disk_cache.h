// Cache of compiled kernels on disk: one file per entry (cache_entry.h). A damaged entry is a miss.
//
// Place: the given directory, else LIGERDSL_CACHE_DIR, else $XDG_CACHE_HOME/ligerdsl, else
// $HOME/.cache/ligerdsl; created 0700. A directory is rejected if it is a symlink, belongs to
// another user, or is writable by group or world. The cache is then off: one warning is logged, and
// kernels are cached in memory only. Mode `required` throws CACHE_ERROR instead. Ownership and
// permissions of the directory protect against malicious entries. The digest protects against
// damaged entries.
//
// Reading checks the header against the file's name and size before it allocates memory for the
// payload, then checks the digest. Every mismatch, error or strange file type is a miss. Entries
// are not read back after a write.
//
// Size: the limit on the bytes of all entries is approximate. A process lists the folder at its
// first store, and again whenever it has stored 1/64 of the limit. If the entries exceed the limit,
// it removes the least recently used entries until 7/8 of the limit are left. Most stores therefore
// list nothing, but P concurrent processes can exceed the limit by P/64 of it. The time of last
// use is the file's modification time, which a hit updates if it is older than a minute. An entry
// larger than the limit is not stored.
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
  // Opens or creates the directory. A `limit_bytes` of 0 means 1 GiB. Throws CACHE_ERROR only with
  // CacheMode::required.
  DiskCache(const std::string& directory, CacheMode mode, int64_t limit_bytes = 0);

  bool readable() const { return folder_.is_open(); }
  bool writable() const { return folder_.is_open() && mode_ != CacheMode::read_only; }
  const CacheFolder& folder() const { return folder_; }
  const std::string& directory() const { return folder_.path(); }  // empty without a directory
  const std::string& why_off() const { return why_off_; }          // empty while the cache works
  int64_t limit_bytes() const { return limit_bytes_; }

  // read() and write() may be called by any number of threads and processes. `suffix` is
  // kArtifactSuffix or kCubinSuffix. `label` describes the entry for people; write() sets its
  // build.
  std::optional<std::string> read(const Digest& key, const char* suffix) const;
  void write(const Digest& key, const char* suffix, std::string_view payload,
             CacheLabel label = {}) const;

  // Returns the stamp of the stored entry; see single_flight.h.
  FileStamp stamp(const Digest& key, const char* suffix) const {
    return folder_.stamp(entry_name(key, suffix));
  }

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
  mutable std::atomic<int64_t> stored_bytes_{0};  // bytes stored since the folder was last listed
};

// Returns the default directory ("Place" above), or "" if no variable names one.
std::string default_cache_directory(const Options& options);

}  // namespace ligerdsl::runtime
