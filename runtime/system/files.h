// Descriptors and paths: whole reads and writes, folders made with their parents, and where on a path something failed.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace ligerdsl::runtime {

// "Permission denied". Unlike strerror, the same in every locale and safe in threads.
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

// While it lives, a write of this thread to a pipe that nobody reads, or beyond the limit on the size of files, is an
// error (EPIPE, EFBIG) and no signal, which would end the host.
class WriteSignalsHeld {
 public:
  WriteSignalsHeld();
  ~WriteSignalsHeld();  // leaves errno as it is
  WriteSignalsHeld(const WriteSignalsHeld&) = delete;

 private:
  sigset_t ours_, before_;
};

// False at the end of the file, or with errno set. Writes hold those signals.
bool read_all(int fd, char* to, size_t size);
bool write_all(int fd, std::string_view bytes);

// All of a regular file of at most `most` bytes; null with a problem ("\"/a/file\": Is a directory") for anything else.
// Never waits for who may write into a pipe.
std::optional<std::string> read_file(const std::string& path, size_t most, std::string* problem);

// What went wrong on the way along a path, and at which part of it.
struct PathFailure {
  int error = 0;     // errno; 0: nothing went wrong
  std::string part;  // "/home/me/.cache" of "/home/me/.cache/ligerdsl"

  explicit operator bool() const { return error != 0; }
  std::string text() const;  // "\"/home/me/.cache\": Permission denied"
};

// mkdir -p; folders that exist stay as they are.
PathFailure make_directories(const std::string& path, mode_t mode);

// An operation on `path` failed with `error`: the first folder on the way that is none, else the path itself.
PathFailure locate_failure(const std::string& path, int error);

}  // namespace ligerdsl::runtime
