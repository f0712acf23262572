// Functions for files: complete reads and writes, creation of folders with their parents, and the
// part of a path at which an operation failed.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace ligerdsl::runtime {

// Returns the text of an errno: "Permission denied". Unlike strerror, the function is thread-safe
// and independent of the locale.
std::string error_text(int error);

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }
  bool good() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Blocks SIGPIPE and SIGXFSZ in this thread while the object exists. A write to a pipe without a
// reader, or beyond the file size limit, then fails with EPIPE or EFBIG. Otherwise the signal would
// end the host.
class WriteSignalsHeld {
 public:
  WriteSignalsHeld();
  ~WriteSignalsHeld();  // keeps errno
  WriteSignalsHeld(const WriteSignalsHeld&) = delete;

 private:
  sigset_t ours_, before_;
};

// Read or write all bytes. Return false at the end of the file, or on an error with errno set.
// write_all holds a WriteSignalsHeld.
bool read_all(int fd, char* to, size_t size);
bool write_all(int fd, std::string_view bytes);

// Returns the content of a regular file of at most `most` bytes. Otherwise returns null and sets
// `problem` ("\"/a/file\": Is a directory"). Never blocks on a pipe.
std::optional<std::string> read_file(const std::string& path, size_t most, std::string* problem);

// Error of an operation on a path, and the part of the path at which the operation failed.
struct PathFailure {
  int error = 0;     // errno, or 0 for no failure
  std::string part;  // "/home/me/.cache" of "/home/me/.cache/ligerdsl"

  explicit operator bool() const { return error != 0; }
  std::string text() const;  // "\"/home/me/.cache\": Permission denied"
};

// Creates a folder and its parents (mkdir -p). Existing folders stay unchanged.
PathFailure make_directories(const std::string& path, mode_t mode);

// Finds the part of `path` at which an operation failed with `error`: the first part that is
// not a folder, else the whole path.
PathFailure locate_failure(const std::string& path, int error);

}  // namespace ligerdsl::runtime
