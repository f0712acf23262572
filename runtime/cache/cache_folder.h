// The folder of the disk cache: opened safely, listed, and emptied of nothing but the cache's own files.
//
// Rule 1: after the folder was opened, files are reached only relative to that descriptor, by names without a slash,
//         with O_NOFOLLOW. Nothing follows a symbolic link or enters a folder.
// Rule 2: a file is removed only when it is the cache's own: a regular file of this user with one name, a name of the
//         pattern below, and content that begins as an entry of that very name does. A temporary file has its own
//         pattern, and is empty or begins as an entry does. The lock of an entry (entry_lock.h) is a temporary file.
// Rule 3: an entry is written to a temporary file, synced, and renamed. A process that is killed meanwhile leaves the
//         temporary file; it goes at the first trim() more than an hour later.
// Any number of processes may store, read and trim at the same time: what one removes under another is a miss there.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cache/cache_entry.h"

namespace ligerdsl::runtime {

inline constexpr time_t kTemporaryLifetime = 3600;  // s

struct CacheUsage {
  int64_t entries = 0;
  int64_t bytes = 0;
};

enum class CacheFault : uint8_t {
  none,
  switched_off,
  unnamed,
  not_created,
  missing,
  not_opened,
  not_a_folder,  // a symbolic link, or a file
  foreign_owner,
  others_may_write,
};

// Identifies a file, so that a file that replaces it under its name is noticed. Zero: there is none.
struct FileStamp {
  uint64_t number = 0;  // of the inode
  int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

// The name of the file that is locked while an entry is made.
std::string lock_name(const std::string& entry);

struct CacheFile {
  std::string name;
  bool temporary = false;
  int64_t bytes = 0;
  time_t used = 0;  // modification time: of the last use (disk_cache.h)
};

struct TrimRequest {
  int64_t max_bytes = 0;     // nothing goes while entries have at most so many bytes
  int64_t target_bytes = 0;  // else the least recently used go until they have at most so many
  std::string keep;          // the name of an entry that stays
  bool dry_run = false;      // only say what would go
};

struct TrimResult {
  CacheUsage removed, left;
  int64_t temporaries = 0;  // removed
  int error = 0;            // errno of the first removal that failed
};

class CacheFolder {
 public:
  // Opens the folder, and creates it (0700, with its parents) when told to.
  CacheFolder(const std::string& path, bool create);
  // A folder that is not to be used.
  explicit CacheFolder(const std::string& path) : path_(path), fault_(CacheFault::switched_off) {}
  ~CacheFolder();
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  CacheFault fault() const { return fault_; }
  const std::string& why() const { return why_; }  // in words; empty while the folder is open

  // What is an entry or a temporary file by name and kind. `others`: the names of everything else that is there.
  std::vector<CacheFile> list(std::vector<std::string>* others = nullptr) const;
  CacheUsage usage() const;
  FileStamp stamp(const std::string& name) const;

  // The head of a listed entry; the digest is checked only when asked for. A file that is no entry of ours is foreign.
  EntryHead inspect(const CacheFile& file, bool digest) const;

  // Removes entries by the request, and temporary files that are older than an hour.
  TrimResult trim(const TrimRequest& request) const;
  // The same, unless another process or thread is at it.
  void trim_unless_busy(const TrimRequest& request) const;

  // Writes, syncs and renames. Returns 0 or an errno; leaves no temporary file behind on failure.
  int store(const std::string& name, std::string_view head, std::string_view payload) const;

  // Writes a file as large as many an entry, reads it and removes it. Returns 0 or an errno.
  int probe() const;

 private:
  std::string open(bool create);  // sets fd_ or fault_; returns what is wrong
  bool owns(const CacheFile& file) const;
  int remove(const CacheFile& file, bool dry_run) const;

  std::string path_, why_;
  CacheFault fault_ = CacheFault::none;
  int fd_ = -1;
};

}  // namespace ligerdsl::runtime
