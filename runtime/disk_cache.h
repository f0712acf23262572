// Compiled kernels on disk: one file per entry, any damage is a miss.
//
// Place: the directory given, else LIGERDSL_CACHE_DIR, else $XDG_CACHE_HOME/ligerdsl, else $HOME/.cache/ligerdsl;
// created 0700. A directory that is a symlink, not ours, or writable by group or world is refused: the cache is off,
// one warning is logged, and work goes on in memory (with mode `required` that is CACHE_ERROR instead). Nothing read
// from here is ever trusted for its content alone: ownership and permissions protect against poisoning, the digest
// against corruption.
//
// Rule 1: an entry is written to a temporary file in the same directory, synced, and renamed; what was just written is
// not
//         read back.
// Rule 2: reading checks magic, schema, key, length and SHA-256; every mismatch, error or strange file type is a miss.
// Rule 3: after the directory was opened, files are reached only relative to that descriptor, with O_NOFOLLOW.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/options.h"
#include "runtime/sha256.h"

namespace ligerdsl::runtime {

struct CacheUsage {
  int64_t entries = 0;
  int64_t bytes = 0;
};

class DiskCache {
 public:
  // Opens or creates the directory. Throws CACHE_ERROR only with CacheMode::required.
  DiskCache(const std::string& directory, CacheMode mode);
  ~DiskCache();
  DiskCache(const DiskCache&) = delete;
  DiskCache& operator=(const DiskCache&) = delete;

  bool readable() const { return directory_fd_ >= 0; }
  bool writable() const { return directory_fd_ >= 0 && mode_ != CacheMode::read_only; }
  const std::string& directory() const { return directory_; }  // empty: none could be named
  const std::string& why_off() const { return why_off_; }      // empty while the cache works

  // Both may be called from any thread and from any number of processes. `suffix` tells levels apart: ".art", ".cubin".
  std::optional<std::string> read(const Digest& key, const char* suffix) const;
  void write(const Digest& key, const char* suffix, std::string_view payload) const;

  CacheUsage usage() const;
  // Removes entries, oldest use first, until at most max_bytes remain, and temporary files older than an hour. Returns
  // what was removed.
  CacheUsage trim(int64_t max_bytes) const;

 private:
  std::string open_directory();  // returns what is wrong with it, or nothing
  void refuse(const std::string& reason);

  std::string directory_;
  std::string why_off_;
  CacheMode mode_;
  int directory_fd_ = -1;
};

// Where the cache lives by the rules above; empty when HOME is unset too.
std::string default_cache_directory(const Options& options);

}  // namespace ligerdsl::runtime
