#include "runtime/system/safe_open.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <deque>
#include <utility>

namespace ligerdsl::runtime {
namespace {

constexpr int kMostLinks = 40;  // as in Linux
constexpr int kFolder = O_PATH | O_DIRECTORY | O_CLOEXEC;

void push_front(std::deque<std::string>* names, const std::string& path) {
  std::deque<std::string> parts;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin && path.substr(begin, end - begin) != ".")
      parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  names->insert(names->begin(), parts.begin(), parts.end());
}

bool is_proc(int fd) {
  struct statfs system {};
  return fstatfs(fd, &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

bool others_may_write(const struct stat& folder) {
  return (folder.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
         (folder.st_uid != geteuid() && folder.st_uid != 0);
}

// A walk along a path. `at_` is the folder that the walk has reached.
class Walk {
 public:
  Walk(const std::string& path, std::string* problem) : path_(path), problem_(problem) {
    push_front(&names_, path);
    // A path that ends in a slash refers to the folder's content.
    if (path.ends_with('/')) names_.push_back(".");
    at_ = open(path.starts_with('/') ? "/" : ".", kFolder);
  }
  ~Walk() {
    if (at_ >= 0) close(at_);
  }
  Walk(const Walk&) = delete;

  // Walks to the last name of the path. With `make`, walks into the last name, too, and creates
  // missing folders with this mode.
  bool go(const mode_t* make) {
    if (path_.empty()) return refuse(error_text(ENOENT));
    while (at_ >= 0 && (names_.size() > 1 || (make && !names_.empty()))) {
      if (!step(make)) return false;
    }
    return at_ >= 0 ? make || resolve_last() : refuse(error_text(errno));
  }
  int take() { return std::exchange(at_, -1); }
  bool kernels_link() const { return kernels_link_; }
  std::string name() const { return names_.empty() ? "." : names_.front(); }

 private:
  bool refuse(const std::string& why) {
    *problem_ = '"' + path_ + "\": " + why;
    return false;
  }
  void enter(int folder) {
    close(at_);
    at_ = folder;
  }

  // Returns true if `link` may be followed. The names of its target then replace its name at the
  // head of the remaining names.
  bool follow(int link, const struct stat& info) {
    if (info.st_uid != geteuid() && info.st_uid != 0)
      return refuse("\"" + names_.front() + "\" is a symbolic link of another user (uid " +
                    std::to_string(info.st_uid) + "), which is not followed; name another path");
    if (++links_ > kMostLinks) return refuse(error_text(ELOOP));
    char target[PATH_MAX];
    const ssize_t size = readlinkat(link, "", target, sizeof target);
    if (size <= 0) return refuse(error_text(size < 0 ? errno : ENOENT));
    const std::string text(target, static_cast<size_t>(size));
    names_.pop_front();
    push_front(&names_, text);
    if (text.starts_with('/')) enter(open("/", kFolder));
    return true;
  }

  bool step(const mode_t* make) {
    const std::string name = names_.front();
    int next = openat(at_, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0 && errno == ENOENT && make) {
      if (mkdirat(at_, name.c_str(), *make) != 0 && errno != EEXIST) return refuse_part(errno);
      next = openat(at_, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    }
    if (next < 0) return refuse_part(errno);
    struct stat info {};
    if (fstat(next, &info) != 0) return refuse_part(errno);
    if (!S_ISLNK(info.st_mode) || is_proc(next)) {
      if (S_ISLNK(info.st_mode)) {
        close(next);
        next = openat(at_, name.c_str(), kFolder);
      } else if (!S_ISDIR(info.st_mode)) {
        close(next);
        return refuse_part(ENOTDIR);
      }
      if (next < 0) return refuse_part(errno);
      names_.pop_front();
      enter(next);
      return true;
    }
    const File link(next);
    return follow(next, info);
  }

  bool refuse_part(int error) {
    *problem_ = locate_failure(path_, error).text();
    return false;
  }

  // Resolves the last name, which may be a link to an existing or missing file.
  bool resolve_last() {
    while (!names_.empty()) {
      if (names_.size() > 1) {
        if (!step(nullptr)) return false;
        continue;
      }
      const File last(openat(at_, names_.front().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
      struct stat info {};
      if (!last.good() || fstat(last.get(), &info) != 0 || !S_ISLNK(info.st_mode)) return true;
      kernels_link_ = is_proc(last.get());
      if (kernels_link_) return true;
      if (!follow(last.get(), info)) return false;
    }
    return true;
  }

  const std::string path_;
  std::string* problem_;
  std::deque<std::string> names_;
  int at_ = -1, links_ = 0;
  bool kernels_link_ = false;
};

// Returns why rule 2 forbids this file, or "".
std::string foreign_in_sticky(const struct stat& folder, const struct stat& file) {
  if (!others_may_write(folder) || (folder.st_mode & S_ISVTX) == 0 || file.st_uid == geteuid())
    return "";
  return "it belongs to another user (uid " + std::to_string(file.st_uid) +
         ") in a folder that other users can write to; name another path";
}

// Returns why rule 2 or 3 forbids writing an existing file, or "".
std::string forbidden(int folder, const struct stat& file) {
  struct stat around {};
  if (fstat(folder, &around) != 0) return error_text(errno);
  if (std::string why = foreign_in_sticky(around, file); !why.empty()) return why;
  if (others_may_write(around) && S_ISREG(file.st_mode) && file.st_nlink > 1)
    return "it has a second name (a hard link), in a folder that other users can write to; name "
           "another path";
  return "";
}

}  // namespace

std::string Place::foreign_file() const {
  struct stat around {
  }, file{};
  if (kernels_link || fstatat(folder.get(), name.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0)
    return "";
  return fstat(folder.get(), &around) == 0 ? foreign_in_sticky(around, file) : error_text(errno);
}

std::unique_ptr<Place> find_place(const std::string& path, std::string* problem) {
  Walk walk(path, problem);
  if (!walk.go(nullptr)) return nullptr;
  return std::make_unique<Place>(walk.take(), walk.name(), walk.kernels_link());
}

int open_to_write(const std::string& path, int flags, mode_t mode, std::string* problem) {
  const std::unique_ptr<Place> place = find_place(path, problem);
  if (!place) return -1;
  const auto refuse = [&](const std::string& why) {
    *problem = '"' + path + "\": " + why;
    return -1;
  };
  const int folder = place->folder.get();
  struct stat before {
  }, info{};
  const bool exists = fstatat(folder, place->name.c_str(), &before, AT_SYMLINK_NOFOLLOW) == 0;
  if (exists && !place->kernels_link) {  // before open(), which would block on another user's pipe
    if (const std::string why = forbidden(folder, before); !why.empty()) return refuse(why);
  }
  const int follow = place->kernels_link ? 0 : O_NOFOLLOW;
  const int fd =
      openat(folder, place->name.c_str(), (flags & ~O_TRUNC) | follow | O_CLOEXEC | O_NOCTTY, mode);
  if (fd < 0) return refuse(errno == ELOOP ? "it is a symbolic link" : error_text(errno));
  std::string why = fstat(fd, &info) != 0 ? error_text(errno)
                    : place->kernels_link ? ""
                                          : forbidden(folder, info);
  if (why.empty() && (flags & O_TRUNC) != 0 && S_ISREG(info.st_mode) && ftruncate(fd, 0) != 0)
    why = error_text(errno);
  if (why.empty()) return fd;
  close(fd);
  return refuse(why);
}

int open_folder(const std::string& path, mode_t mode, std::string* problem) {
  Walk walk(path, problem);
  return walk.go(&mode) ? walk.take() : -1;
}

// Writes under a temporary name first. A file of this name may exist: a process on another machine,
// or a process that has ended, may have had the same process id.
bool replace_file(int folder, const std::string& name, std::string_view content, mode_t mode) {
  static std::atomic<uint32_t> number{0};
  std::string fresh;
  int fd = -1;
  do {
    fresh = name + ".new-" + std::to_string(getpid()) + "-" + std::to_string(++number);
    fd = openat(folder, fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EEXIST);
  {
    const File file(fd);
    if (!file.good()) return false;
    if (write_all(file.get(), content) &&
        renameat(folder, fresh.c_str(), folder, name.c_str()) == 0)
      return true;
  }
  const int error = errno;
  unlinkat(folder, fresh.c_str(), 0);
  errno = error;
  return false;
}

}  // namespace ligerdsl::runtime
