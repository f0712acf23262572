#include "runtime/cache/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>

#include "runtime/compile/compiler_library.h"
#include "runtime/environment/log.h"
#include "runtime/system/files.h"
#include "runtime/system/status.h"

namespace ligerdsl::runtime {
namespace {

constexpr time_t kUseResolution = 60;  // s
constexpr int64_t kLookFraction = 64;  // the folder is listed after limit / 64 stored bytes
constexpr int64_t kCheckFirstBytes = int64_t{1}
                                     << 20;  // smallest payload that is checked before allocation

constexpr const char* kWrongDigest = "its content does not match the digest in its header";

std::string text_of_limit(int64_t bytes) {
  return "the limit of " + std::to_string(bytes) +
         " bytes (LIGERDSL_CACHE_SIZE, or cache_limit_bytes of the context)";
}

}  // namespace

std::string default_cache_directory(const Options& options) {
  if (!options.cache_dir.empty()) return options.cache_dir;
  // XDG base directory specification: a relative XDG_CACHE_HOME is invalid and ignored.
  if (options.xdg_cache_home.starts_with('/')) return options.xdg_cache_home + "/ligerdsl";
  if (!options.home.empty()) return options.home + "/.cache/ligerdsl";
  return "";
}

DiskCache::DiskCache(const std::string& directory, CacheMode mode, int64_t limit_bytes)
    : mode_(mode),
      limit_bytes_(limit_bytes > 0 ? limit_bytes : kDefaultCacheLimit),
      folder_(mode == CacheMode::off ? CacheFolder(directory)
                                     : CacheFolder(directory, mode != CacheMode::read_only)) {
  if (mode == CacheMode::off) {
    why_off_ = "LIGERDSL_CACHE is off";
  } else if (!folder_.is_open()) {
    refuse(folder_.why());
  }
}

void DiskCache::refuse(const std::string& reason) {
  why_off_ =
      directory().empty() ? reason : "cache folder \"" + directory() + "\" is not used: " + reason;
  if (mode_ == CacheMode::required) fail(Status::cache_error, why_off_);
  log_once(LogLevel::warning, "cache:" + directory(),
           why_off_ + "; kernels are cached in memory only");
}

std::optional<std::string> DiskCache::read(const Digest& key, const char* suffix) const {
  if (!readable()) return std::nullopt;
  const EntryName name{key, suffix};
  const File file(openat(folder_.fd(), entry_name(key, suffix).c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file.good() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != geteuid())
    return std::nullopt;
  const auto reject = [&](const std::string& why) {
    log(LogLevel::info, "cache entry " + entry_name(key, suffix) + " is ignored: " + why);
    return std::nullopt;
  };
  const EntryHead head = read_entry_head(file.get(), info.st_size, name);
  if (head.state != EntryState::good) return reject(head.why);
  // A large payload is checked before memory is allocated for it.
  if (head.payload_bytes >= kCheckFirstBytes && !entry_digest_is_right(file.get(), head))
    return reject(kWrongDigest);
  std::string payload(static_cast<size_t>(head.payload_bytes), '\0');
  if (lseek(file.get(), head.payload_offset, SEEK_SET) < 0 ||
      !read_all(file.get(), payload.data(), payload.size()))
    return reject("its content cannot be read");
  if (!entry_digest_is_right(payload, head)) return reject(kWrongDigest);
  if (writable() && info.st_mtime + kUseResolution < time(nullptr)) futimens(file.get(), nullptr);
  return payload;
}

void DiskCache::write(const Digest& key, const char* suffix, std::string_view payload,
                      CacheLabel label) const {
  if (!writable()) return;
  label.build = build_id();
  const EntryName name{key, suffix};
  const std::string head = encode_entry_head(name, label, payload), file = entry_name(key, suffix);
  const auto bytes = static_cast<int64_t>(head.size() + payload.size());
  if (bytes > kMaxEntryBytes)
    return report_unwritten("an entry of " + std::to_string(bytes) +
                            " bytes is larger than the maximum of " +
                            std::to_string(kMaxEntryBytes) + " bytes");
  if (bytes > limit_bytes_)
    return report_unwritten("an entry of " + std::to_string(bytes) + " bytes is larger than " +
                            text_of_limit(limit_bytes_));
  if (const int error = folder_.store(file, head, payload))
    return report_unwritten(error_text(error));
  keep_limit(file, bytes);
}

void DiskCache::report_unwritten(const std::string& reason) const {
  const std::string message = "cannot write to the cache \"" + directory() + "\": " + reason;
  if (mode_ == CacheMode::required) fail(Status::cache_error, message);
  log_once(LogLevel::warning, "cache write:" + directory(),
           message + "; a kernel that cannot be written is cached in memory only");
}

void DiskCache::keep_limit(const std::string& stored, int64_t bytes) const {
  const bool look = (stored_bytes_ += bytes) >= limit_bytes_ / kLookFraction;
  if (looked_.exchange(true) && !look) return;
  stored_bytes_ = 0;
  folder_.trim_unless_busy(
      {.max_bytes = limit_bytes_, .target_bytes = limit_bytes_ - limit_bytes_ / 8, .keep = stored});
}

}  // namespace ligerdsl::runtime
