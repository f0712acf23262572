#include "runtime/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <vector>

#include "runtime/log.h"
#include "runtime/status.h"

namespace ligerdsl::runtime {
namespace {

// Header of an entry, little-endian: magic[8] schema[4] key[32] length[8] sha256(payload)[32].
constexpr std::string_view kMagic = "LGDSLKRN";
constexpr uint32_t kSchema = 1;
constexpr size_t kHeaderSize = 84;
constexpr int64_t kMaxEntry = int64_t{1} << 30;
constexpr const char* kTempPrefix = ".tmp-";
constexpr time_t kTempLifetime = 3600;  // seconds after which a temporary file is surely abandoned
constexpr time_t kUseResolution = 86400;

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string error_text(int error) {
  return strerrordesc_np(error) ? strerrordesc_np(error) : "unknown error";
}

std::string_view view(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

void append_number(std::string& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i));
}

std::string header(const Digest& key, const char* suffix, std::string_view payload) {
  std::string bytes(kMagic);
  append_number(bytes, kSchema, 4);
  bytes += view(Sha256().field(view(key)).field(suffix).finish());
  append_number(bytes, payload.size(), 8);
  bytes += view(sha256(payload));
  return bytes;
}

// mkdir -p with 0700; an existing folder is left as it is. Returns 0 or an errno. What counts is whether the folder is
// there in the end: the steps may fail in other ways than EEXIST for folders that exist (read-only or foreign parents).
int make_directories(const std::string& path) {
  int error = 0;
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    if (mkdir(path.substr(0, slash).c_str(), 0700) != 0) error = errno;
    if (slash == std::string::npos) break;
  }
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 ? 0 : error;
}

// Empty when the open directory may be used, else what is wrong with it.
std::string objection(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return error_text(errno);
  if (info.st_uid != geteuid()) return "it belongs to another user";
  if (info.st_mode & (S_IWGRP | S_IWOTH)) return "it is writable by group or world (chmod 700 it)";
  return "";
}

bool read_all(int fd, char* to, size_t size) {
  while (size > 0) {
    const ssize_t got = ::read(fd, to, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got, size -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

std::string temporary_name() {
  static std::atomic<uint64_t> counter{0};
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return kTempPrefix + std::to_string(getpid()) + "-" + std::to_string(now.tv_nsec) + "-" + std::to_string(counter++);
}

// Writes, syncs and renames. Returns 0 or an errno; leaves no temporary file behind on failure.
int write_entry(int directory, const std::string& name, std::string_view head, std::string_view payload) {
  const std::string temporary = temporary_name();
  int error = 0;
  {
    File file(openat(directory, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.get() < 0) return errno;
    errno = EIO;
    if (!write_all(file.get(), head) || !write_all(file.get(), payload) || fsync(file.get()) != 0) error = errno;
  }
  if (error == 0 && renameat(directory, temporary.c_str(), directory, name.c_str()) != 0) error = errno;
  if (error != 0) unlinkat(directory, temporary.c_str(), 0);
  return error;
}

struct Listed {
  std::string name;
  int64_t bytes;
  time_t used;
  bool temporary;
};

std::vector<Listed> list(int directory) {
  std::vector<Listed> files;
  DIR* stream = fdopendir(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (stream == nullptr) return files;
  while (const dirent* entry = readdir(stream)) {
    struct stat info {};
    if (fstatat(directory, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    files.push_back(
        {entry->d_name, info.st_size, info.st_mtime, std::string_view(entry->d_name).starts_with(kTempPrefix)});
  }
  closedir(stream);
  return files;
}

}  // namespace

std::string default_cache_directory(const Options& options) {
  if (!options.cache_dir.empty()) return options.cache_dir;
  // The base directory specification: a relative XDG_CACHE_HOME is invalid and ignored.
  if (options.xdg_cache_home.starts_with('/')) return options.xdg_cache_home + "/ligerdsl";
  if (!options.home.empty()) return options.home + "/.cache/ligerdsl";
  return "";
}

DiskCache::DiskCache(const std::string& directory, CacheMode mode) : directory_(directory), mode_(mode) {
  // A trailing slash would make the system follow a symlink in spite of O_NOFOLLOW.
  while (directory_.size() > 1 && directory_.back() == '/') directory_.pop_back();
  if (mode == CacheMode::off) {
    why_off_ = "LIGERDSL_CACHE is off";
    return;
  }
  const std::string reason = open_directory();
  if (!reason.empty()) refuse(reason);
}

std::string DiskCache::open_directory() {
  if (directory_.empty()) return "no cache folder is named: set LIGERDSL_CACHE_DIR, XDG_CACHE_HOME or HOME";
  if (mode_ != CacheMode::read_only) {
    if (int error = make_directories(directory_)) return "it cannot be created: " + error_text(error);
  }
  const int fd = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && (errno == ELOOP || errno == ENOTDIR)) return "it is a symlink or no folder";
  if (fd < 0) return "it cannot be opened: " + error_text(errno);
  const std::string why = objection(fd);
  if (why.empty()) {
    directory_fd_ = fd;
  } else {
    close(fd);
  }
  return why;
}

DiskCache::~DiskCache() {
  if (directory_fd_ >= 0) close(directory_fd_);
}

void DiskCache::refuse(const std::string& reason) {
  why_off_ = directory_.empty() ? reason : "\"" + directory_ + "\" is not used as cache: " + reason;
  if (mode_ == CacheMode::required) fail(Status::cache_error, why_off_);
  log_once(LogLevel::warning, "cache:" + directory_, why_off_ + "; kernels are kept in memory only");
}

std::optional<std::string> DiskCache::read(const Digest& key, const char* suffix) const {
  if (!readable()) return std::nullopt;
  const std::string name = hex(key) + suffix;
  File file(openat(directory_fd_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return std::nullopt;
  struct stat info {};
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) return std::nullopt;
  if (info.st_size < static_cast<off_t>(kHeaderSize) || info.st_size > kMaxEntry) return std::nullopt;
  char head[kHeaderSize];
  std::string payload(static_cast<size_t>(info.st_size) - kHeaderSize, '\0');
  if (!read_all(file.get(), head, kHeaderSize) || !read_all(file.get(), payload.data(), payload.size()))
    return std::nullopt;
  if (std::string_view(head, kHeaderSize) != header(key, suffix, payload)) {
    log(LogLevel::info, "cache entry " + name + " is damaged or of another version; it is made again");
    return std::nullopt;
  }
  // The modification time is the time of last use, at a day's resolution: what trim() goes by.
  if (writable() && info.st_mtime + kUseResolution < time(nullptr)) futimens(file.get(), nullptr);
  return payload;
}

void DiskCache::write(const Digest& key, const char* suffix, std::string_view payload) const {
  if (!writable()) return;
  const int error = write_entry(directory_fd_, hex(key) + suffix, header(key, suffix, payload), payload);
  if (error == 0) return;
  const std::string message = "cannot write to the cache \"" + directory_ + "\": " + error_text(error);
  if (mode_ == CacheMode::required) fail(Status::cache_error, message);
  log_once(LogLevel::warning, "cache write:" + directory_, message + "; kernels are kept in memory only");
}

CacheUsage DiskCache::usage() const {
  CacheUsage total;
  if (!readable()) return total;
  for (const Listed& file : list(directory_fd_)) {
    if (file.temporary) continue;
    ++total.entries;
    total.bytes += file.bytes;
  }
  return total;
}

CacheUsage DiskCache::trim(int64_t max_bytes) const {
  CacheUsage removed;
  if (!writable()) return removed;
  std::vector<Listed> files = list(directory_fd_);
  std::sort(files.begin(), files.end(), [](const Listed& a, const Listed& b) { return a.used < b.used; });
  int64_t bytes = usage().bytes;
  const time_t abandoned = time(nullptr) - kTempLifetime;
  for (const Listed& file : files) {
    if (file.temporary ? file.used > abandoned : bytes <= max_bytes) continue;
    if (unlinkat(directory_fd_, file.name.c_str(), 0) != 0) continue;
    ++removed.entries;
    removed.bytes += file.bytes;
    if (!file.temporary) bytes -= file.bytes;
  }
  return removed;
}

}  // namespace ligerdsl::runtime
