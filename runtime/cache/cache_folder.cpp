#include "runtime/cache/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <numeric>

#include "runtime/system/files.h"

namespace ligerdsl::runtime {
namespace {

constexpr std::string_view kTemporaryPrefix = ".ligerdsl-", kTemporarySuffix = ".tmp",
                           kLockSuffix = ".lock";
constexpr std::string_view kAnyMagic = "LGDSL";  // first bytes of every entry
constexpr int kNotOurs = -1;                     // not an errno
constexpr size_t kProbeBytes = size_t{256} << 10;

std::string temporary_name() {
  static std::atomic<uint64_t> counter{0};
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::string(kTemporaryPrefix) + std::to_string(getpid()) + "-" +
         std::to_string(now.tv_nsec) + "-" + std::to_string(counter++) +
         std::string(kTemporarySuffix);
}

// Returns true for the name of a lock: ".ligerdsl-", the name of an entry, ".lock".
bool is_lock_name(std::string_view name) {
  if (name.size() < kTemporaryPrefix.size() + kLockSuffix.size() ||
      !name.starts_with(kTemporaryPrefix) || !name.ends_with(kLockSuffix))
    return false;
  name.remove_prefix(kTemporaryPrefix.size());
  name.remove_suffix(kLockSuffix.size());
  return parse_entry_name(name).has_value();
}

// Returns true for the name of a lock, or of a temporary file: ".ligerdsl-1-2-3.tmp".
bool is_temporary_name(std::string_view name) {
  if (is_lock_name(name)) return true;
  if (name.size() < kTemporaryPrefix.size() + kTemporarySuffix.size() ||
      !name.starts_with(kTemporaryPrefix) || !name.ends_with(kTemporarySuffix))
    return false;
  name.remove_prefix(kTemporaryPrefix.size());
  name.remove_suffix(kTemporarySuffix.size());
  int dashes = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool dash = name[i] == '-';
    dashes += dash;
    if (!dash && (name[i] < '0' || name[i] > '9')) return false;
    if (dash && (i == 0 || name[i - 1] == '-')) return false;
  }
  return dashes == 2 && name.back() != '-';
}

int open_file(int directory, const std::string& name) {
  return openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

bool is_symlink(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
}

bool is_own_regular_file(const struct stat& info) {
  return S_ISREG(info.st_mode) && info.st_uid == geteuid() && info.st_nlink == 1;
}

// Returns true if a temporary file is empty or begins like an entry.
bool begins_as_ours(int fd, int64_t bytes) {
  char begin[kAnyMagic.size()];
  const auto size = static_cast<size_t>(std::min<int64_t>(bytes, kAnyMagic.size()));
  return read_all(fd, begin, size) && std::string_view(begin, size) == kAnyMagic.substr(0, size);
}

int64_t bytes_of(const std::vector<CacheFile>& files) {
  return std::accumulate(files.begin(), files.end(), int64_t{0},
                         [](int64_t sum, const CacheFile& file) { return sum + file.bytes; });
}

}  // namespace

std::string lock_name(const std::string& entry) {
  return std::string(kTemporaryPrefix) + entry + std::string(kLockSuffix);
}

CacheFolder::CacheFolder(const std::string& path, bool create) : path_(path) {
  // With a trailing slash, the system would follow a symlink despite O_NOFOLLOW.
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  why_ = open(create);
}

CacheFolder::~CacheFolder() {
  if (fd_ >= 0) close(fd_);
}

std::string CacheFolder::open(bool create) {
  const auto refuse = [&](CacheFault fault, const std::string& why) {
    fault_ = fault;
    return why;
  };
  if (path_.empty())
    return refuse(CacheFault::unnamed,
                  "no cache folder is named: set LIGERDSL_CACHE_DIR, XDG_CACHE_HOME or HOME");
  if (create) {
    if (const PathFailure failure = make_directories(path_, 0700))
      return refuse(CacheFault::not_created, "it cannot be created: " + failure.text());
  }
  const int fd = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    const PathFailure failure = locate_failure(path_, error);
    if ((error == ELOOP || error == ENOTDIR) && failure.part == path_)
      return refuse(CacheFault::not_a_folder,
                    is_symlink(path_) ? "it is a symlink" : "it is not a folder");
    return refuse(error == ENOENT                      ? CacheFault::missing
                  : error == ELOOP || error == ENOTDIR ? CacheFault::not_a_folder
                                                       : CacheFault::not_opened,
                  "it cannot be opened: " + failure.text());
  }
  struct stat info {};
  const int error = fstat(fd, &info) == 0 ? 0 : errno;
  if (error == 0 && info.st_uid == geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
    fd_ = fd;
    return "";
  }
  close(fd);
  if (error != 0)
    return refuse(CacheFault::not_opened, "it cannot be opened: " + error_text(error));
  return info.st_uid != geteuid()
             ? refuse(CacheFault::foreign_owner,
                      "it belongs to another user (uid " + std::to_string(info.st_uid) + ")")
             : refuse(CacheFault::others_may_write,
                      "it is writable by group or world; "
                      "run `chmod 700` on it");
}

std::vector<CacheFile> CacheFolder::list(std::vector<std::string>* others) const {
  std::vector<CacheFile> files;
  if (!is_open()) return files;
  const int own = openat(fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = own >= 0 ? fdopendir(own) : nullptr;
  if (stream == nullptr) {
    if (own >= 0) close(own);
    return files;
  }
  while (const dirent* entry = readdir(stream)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const bool temporary = is_temporary_name(name);
    struct stat info {};
    const bool ours = (temporary || parse_entry_name(name)) &&
                      fstatat(fd_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                      is_own_regular_file(info) && (temporary || info.st_size <= kMaxEntryBytes);
    if (ours) files.push_back({name, temporary, info.st_size, info.st_mtime});
    if (!ours && others != nullptr) others->push_back(name);
  }
  closedir(stream);
  return files;
}

CacheUsage CacheFolder::usage() const {
  CacheUsage total;
  for (const CacheFile& file : list()) {
    if (file.temporary) continue;
    ++total.entries;
    total.bytes += file.bytes;
  }
  return total;
}

FileStamp CacheFolder::stamp(const std::string& name) const {
  struct stat info {};
  if (!is_open() || fstatat(fd_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return {};
  return {info.st_ino, int64_t{info.st_ctim.tv_sec} * 1'000'000'000 + info.st_ctim.tv_nsec};
}

EntryHead CacheFolder::inspect(const CacheFile& file, bool digest) const {
  EntryHead head;
  const std::optional<EntryName> name = parse_entry_name(file.name);
  const File opened(open_file(fd_, file.name));
  struct stat info {};
  if (!name) {
    head.why = "its name is not the name of an entry";
    return head;
  }
  if (!opened.good() || fstat(opened.get(), &info) != 0) {
    head.why = "it cannot be opened: " + error_text(errno);
    return head;
  }
  if (!is_own_regular_file(info)) {
    head.why = "it is not a regular file with one hard link, owned by this user";
    return head;
  }
  head = read_entry_head(opened.get(), info.st_size, *name);
  if (digest && head.state == EntryState::good && !entry_digest_is_right(opened.get(), head)) {
    head.state = EntryState::damaged;
    head.why = "its content does not match the digest in its header";
  }
  return head;
}

bool CacheFolder::owns(const CacheFile& file) const {
  return remove(file, true) == 0;
}

// Removes a file; with `dry_run`, only checks that the file may be removed. Returns 0, ENOENT if
// the file is already gone, kNotOurs, or another errno.
int CacheFolder::remove(const CacheFile& file, bool dry_run) const {
  const File opened(open_file(fd_, file.name));
  if (!opened.good()) return errno == ENOENT ? ENOENT : kNotOurs;
  struct stat info {
  }, named{};
  if (fstat(opened.get(), &info) != 0 || !is_own_regular_file(info)) return kNotOurs;
  const std::optional<EntryName> name = parse_entry_name(file.name);
  const bool ours =
      name ? read_entry_head(opened.get(), info.st_size, *name).state != EntryState::foreign
           : is_temporary_name(file.name) && begins_as_ours(opened.get(), info.st_size);
  if (!ours) return kNotOurs;
  // The name must still refer to the file that was opened and checked.
  if (fstatat(fd_, file.name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  if (named.st_dev != info.st_dev || named.st_ino != info.st_ino) return kNotOurs;
  if (dry_run || unlinkat(fd_, file.name.c_str(), 0) == 0) return 0;
  return errno;
}

TrimResult CacheFolder::trim(const TrimRequest& request) const {
  TrimResult result;
  std::vector<CacheFile> entries;
  const time_t abandoned = time(nullptr) - kTemporaryLifetime;
  const auto take = [&](const CacheFile& file) {
    const int error = remove(file, request.dry_run);
    if (error > 0 && error != ENOENT && result.error == 0) result.error = error;
    return error;
  };
  for (CacheFile& file : list()) {
    if (!file.temporary) {
      entries.push_back(std::move(file));
    } else if (file.used < abandoned) {
      result.temporaries += take(file) == 0;
    }
  }
  // First counts files by their names. If they exceed the limit, counts only true entries.
  if (bytes_of(entries) > request.max_bytes)
    std::erase_if(entries, [&](const CacheFile& file) { return !owns(file); });
  result.left = {static_cast<int64_t>(entries.size()), bytes_of(entries)};
  if (result.left.bytes <= request.max_bytes) return result;
  std::sort(entries.begin(), entries.end(), [](const CacheFile& a, const CacheFile& b) {
    return a.used != b.used ? a.used < b.used : a.name < b.name;
  });
  for (const CacheFile& file : entries) {
    if (result.left.bytes <= request.target_bytes) break;
    if (file.name == request.keep) continue;
    const int error = take(file);
    if (error != 0 && error != ENOENT) continue;
    --result.left.entries;
    result.left.bytes -= file.bytes;
    if (error == ENOENT) continue;  // removed by another process
    ++result.removed.entries;
    result.removed.bytes += file.bytes;
  }
  return result;
}

void CacheFolder::trim_unless_busy(const TrimRequest& request) const {
  // Opens the folder anew for the lock, because a lock belongs to an open file description. Threads
  // that use fd_ would share the lock.
  const File locked(openat(fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (locked.good() && flock(locked.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return;
  // Unlocks explicitly: a child that another thread forks meanwhile would keep the lock.
  struct Unlock {
    int fd;
    ~Unlock() { (void)flock(fd, LOCK_UN); }
  } const unlock{locked.get()};
  trim(request);
}

int CacheFolder::store(const std::string& name, std::string_view head,
                       std::string_view payload) const {
  const std::string temporary = temporary_name();
  int error = 0;
  {
    const File file(
        openat(fd_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.good()) return errno;
    errno = EIO;
    if (!write_all(file.get(), head) || !write_all(file.get(), payload) || fsync(file.get()) != 0)
      error = errno;
  }
  if (error == 0 && renameat(fd_, temporary.c_str(), fd_, name.c_str()) != 0) error = errno;
  if (error != 0) unlinkat(fd_, temporary.c_str(), 0);
  return error;
}

int CacheFolder::probe() const {
  const std::string name = temporary_name(),
                    content = std::string(kAnyMagic) + std::string(kProbeBytes, 'p');
  if (const int error = store(name, content, "")) return error;
  std::string got(content.size(), '\0');
  const File file(open_file(fd_, name));
  errno = EIO;
  const bool right = file.good() && read_all(file.get(), got.data(), got.size()) && got == content;
  const int error = right ? 0 : errno;
  return unlinkat(fd_, name.c_str(), 0) != 0 && error == 0 ? errno : error;
}

}  // namespace ligerdsl::runtime
