#include "files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

namespace train {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const fs::path& path, const std::string& reason) {
  throw std::runtime_error("cannot write " + path.string() + ": " + reason);
}
[[noreturn]] void fail(const fs::path& path) {
  fail(path, std::strerror(errno));
}

// Follows symbolic links to the file that holds the bytes.
fs::path target_of(const fs::path& path) {
  std::error_code error;
  fs::path target = fs::canonical(path, error);
  return error ? path : target;
}

class File {
 public:
  File(const fs::path& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0666)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  int fd() const { return fd_; }

  bool write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

 private:
  const int fd_;
};

// Owns the temporary file temporary_of(FILE). The destructor removes that file unless it has
// replaced FILE.
//
// The name is fixed, so that leftovers of a killed process are reused and do not accumulate. A lock
// excludes a second process that writes the same checkpoint. Without it, one process could rename
// the other's half-written file.
class Part {
 public:
  explicit Part(const fs::path& target) : target_(target), path_(temporary_of(target)) {
    do {
      file_.emplace(path_, O_WRONLY | O_CREAT | O_NOFOLLOW);
      if (file_->fd() < 0) fail(path_);
      if (flock(file_->fd(), LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        file_.reset();
        fail(target_, "another process is writing this file");
      }
    } while (!is_at_path());  // false if the last owner of the lock has moved or removed the file
    if (ftruncate(file_->fd(), 0)) fail(path_);
  }
  ~Part() {
    if (file_ && !done_) unlink(path_.c_str());
  }

  void write(std::string_view bytes) {
    if (!file_->write(bytes)) fail(target_);
  }

  void take_place() {
    struct stat old {};
    if (stat(target_.c_str(), &old) == 0) (void)!fchmod(file_->fd(), old.st_mode & 0777);
    if (fsync(file_->fd())) fail(target_);
    if (rename(path_.c_str(), target_.c_str())) fail(target_);
    done_ = true;
    const fs::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
    File there(folder, O_RDONLY | O_DIRECTORY);
    if (there.fd() >= 0 && fsync(there.fd()) && errno != EINVAL)
      fail(folder);  // EINVAL: the file system does not support fsync
  }

 private:
  bool is_at_path() const {
    struct stat ours {
    }, there{};
    if (fstat(file_->fd(), &ours)) fail(path_);
    if (!S_ISREG(ours.st_mode)) fail(path_, "it is not a regular file");
    return lstat(path_.c_str(), &there) == 0 && ours.st_dev == there.st_dev &&
           ours.st_ino == there.st_ino;
  }

  const fs::path target_, path_;
  std::optional<File> file_;
  bool done_ = false;
};

bool is_special(const fs::path& path) {
  struct stat there {};
  if (stat(path.c_str(), &there)) return false;
  if (S_ISDIR(there.st_mode)) fail(path, "it is a folder");
  return !S_ISREG(there.st_mode);
}

}  // namespace

// Returns a name that no user would choose, so that an existing file of this name may be
// overwritten.
fs::path temporary_of(const fs::path& path) {
  return target_of(path).string() + ".train_llama-part";
}

void write_whole(const fs::path& path, std::span<const std::string_view> pieces) {
  const fs::path target = target_of(path);
  if (is_special(path)) {
    File file(path, O_WRONLY);
    if (file.fd() < 0) fail(path);
    for (std::string_view piece : pieces) {
      if (!file.write(piece)) fail(path);
    }
    return;
  }
  Part part(target);
  for (std::string_view piece : pieces) part.write(piece);
  part.take_place();
}

void require_writable(const fs::path& path) {
  const fs::path target = target_of(path);
  if (access(path.c_str(), F_OK) == 0 && access(path.c_str(), W_OK)) fail(path);
  if (!is_special(path)) Part part(target);
}

}  // namespace train
