// Opens files for writing in folders where other users may also write, such as /tmp.
//
// Rule 1: a symbolic link in the path is followed only if it belongs to this user or to root. A
// link of another user could point to a file that only this user may write.
//
// Rule 2: in a sticky folder that other users may write, an existing file must belong to this user.
// Another owner could change the content, or block this process with a pipe.
//
// Rule 3: in a folder that other users may write, an existing file must have only one name. With a
// second name (a hard link), it may be a file elsewhere that only this user may write.
//
// The walk opens one folder of the path at a time, so the checked file is the opened file. Links
// below /proc belong to the operating system (/dev/stdout, /proc/self/fd/5) and are followed.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/system/files.h"

namespace ligerdsl::runtime {

// The folder of a path after all links, and the file's name in this folder. The file may be
// missing.
struct Place {
  Place(int folder_fd, std::string the_name, bool is_kernels_link)
      : folder(folder_fd), name(std::move(the_name)), kernels_link(is_kernels_link) {}

  File folder;  // O_PATH: for openat() and renameat()
  std::string name;
  bool kernels_link;  // the name is a link in /proc, which only open() can resolve

  // Returns why rule 2 forbids replacing an existing file of this name, or "".
  std::string foreign_file() const;
};

// Returns null and sets `problem` ("\"/tmp/x\": it is a symbolic link of another user") if a rule
// forbids the path or a folder is missing.
std::unique_ptr<Place> find_place(const std::string& path, std::string* problem);

// Calls open(path, flags, mode) under these rules. O_CLOEXEC and O_NOCTTY are always set, and
// O_TRUNC takes effect only after the checks. Returns -1 and sets `problem` on failure.
int open_to_write(const std::string& path, int flags, mode_t mode, std::string* problem);

// Opens a folder under rule 1, and creates it with its parents if it is missing (mkdir -p). Returns
// -1 and sets `problem` on failure.
int open_folder(const std::string& path, mode_t mode, std::string* problem);

// Replaces a file atomically: a reader of the path finds the old or the new content. If `name` is a
// link, the link itself is replaced. `folder` is a descriptor. Returns false and sets errno on
// failure.
bool replace_file(int folder, const std::string& name, std::string_view content, mode_t mode);

}  // namespace ligerdsl::runtime
