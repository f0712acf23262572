// The folder of the disk cache. Opens it safely, lists it, and removes only the cache's own files.
//
// Rule 1: files are reached relative to the descriptor of the opened folder, by names without a
// slash, with O_NOFOLLOW. Nothing follows a symbolic link or enters a folder.
//
// Rule 2: only files of the cache are removed. Such a file is a regular file of this user with one
// link. An entry has the name of an entry, and its header has the digest of this name. A temporary
// file has a name such as ".ligerdsl-1-2-3.tmp", and is empty or begins like an entry. The lock of
// an entry (entry_lock.h) counts as a temporary file.
//
// Rule 3: an entry is written to a temporary file, synced, and renamed. If the process is killed
// before that, the temporary file remains. The first trim() more than an hour later removes it.
//
// Any number of processes may store, read and trim at the same time. An entry that one process
// removes is a miss for the other processes.
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
  not_a_folder,  // the path is a symbolic link or a file
  foreign_owner,
  others_may_write,
};

// Identifies a file. A file that replaces it has another stamp. All zeros mean that no file exists.
struct FileStamp {
  uint64_t number = 0;  // inode number
  int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

// Returns the name of the file that a process locks while it makes the entry.
std::string lock_name(const std::string& entry);

struct CacheFile {
  std::string name;
  bool temporary = false;
  int64_t bytes = 0;
  time_t used = 0;  // time of last use: the modification time (disk_cache.h)
};

struct TrimRequest {
  int64_t max_bytes = 0;     // entries are removed only if they have more bytes than this
  int64_t target_bytes = 0;  // then the least recently used, until at most this is left
  std::string keep;          // name of an entry to keep
  bool dry_run = false;      // only report what would be removed
};

struct TrimResult {
  CacheUsage removed, left;
  int64_t temporaries = 0;  // removed temporary files
  int error = 0;            // errno of the first removal that failed
};

class CacheFolder {
 public:
  // Opens the folder. With `create`, creates it and its parents (0700).
  CacheFolder(const std::string& path, bool create);
  // Represents a folder that is not used, because the cache is off.
  explicit CacheFolder(const std::string& path) : path_(path), fault_(CacheFault::switched_off) {}
  ~CacheFolder();
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  CacheFault fault() const { return fault_; }
  const std::string& why() const { return why_; }  // why open() failed, else empty

  // Returns the entries and temporary files, without reading them. `others` receives the names of
  // all other files.
  std::vector<CacheFile> list(std::vector<std::string>* others = nullptr) const;
  CacheUsage usage() const;
  FileStamp stamp(const std::string& name) const;

  // Returns the head of a listed entry. Checks the digest of the payload if `digest` is true. A
  // file that is not an entry of the cache has the state `foreign`.
  EntryHead inspect(const CacheFile& file, bool digest) const;

  // Removes entries until `request` is met, and temporary files older than an hour.
  TrimResult trim(const TrimRequest& request) const;
  // Like trim(), but does nothing while another process or thread is trimming.
  void trim_unless_busy(const TrimRequest& request) const;

  // Writes and syncs a temporary file, and renames it to `name`. Returns 0 or an errno. A failure
  // leaves no temporary file.
  int store(const std::string& name, std::string_view head, std::string_view payload) const;

  // Writes a file of 256 KiB, reads it and removes it. Returns 0 or an errno.
  int probe() const;

 private:
  std::string open(bool create);  // sets fd_ or fault_; returns why the folder is not open
  bool owns(const CacheFile& file) const;
  int remove(const CacheFile& file, bool dry_run) const;

  std::string path_, why_;
  CacheFault fault_ = CacheFault::none;
  int fd_ = -1;
};

}  // namespace ligerdsl::runtime
