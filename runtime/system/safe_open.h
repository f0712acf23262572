// Opening files that are written in folders where other users may write too, such as /tmp.
//
// Rule 1: a symbolic link, anywhere on the path, is followed only when it belongs to this user or to root. Another
//         user's link would make us write over a file that only we may write.
// Rule 2: in a sticky folder that others may write, a file that exists must belong to this user. Its owner could change
//         what we wrote, or keep us waiting with a pipe.
// Rule 3: in a folder that others may write, a file that exists has one name. A second name (a hard link) may be that of
//         a file elsewhere that only we may write.
// The path is walked one folder at a time by descriptors, so what was checked is what is opened. Links below /proc are
// the kernel's (/dev/stdout, /proc/self/fd/5), and are followed.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/system/files.h"

namespace ligerdsl::runtime {

// The folder that a path ends in after all links, and the name there, of which there may be a file or not.
struct Place {
  Place(int folder_fd, std::string the_name, bool is_kernels_link)
      : folder(folder_fd), name(std::move(the_name)), kernels_link(is_kernels_link) {}

  File folder;  // O_PATH: for openat() and renameat()
  std::string name;
  bool kernels_link;  // the name is a link of /proc, which only opening resolves

  // Why a file that exists there may not be replaced, by rule 2; empty: it may be.
  std::string foreign_file() const;
};

// Null with a problem ("\"/tmp/x\": it is a symbolic link of another user") where a rule forbids it or a folder is missing.
std::unique_ptr<Place> find_place(const std::string& path, std::string* problem);

// open(path, flags, mode) by these rules; O_CLOEXEC and O_NOCTTY are always set, and O_TRUNC cuts the file only after the
// checks. -1 with a problem where that fails.
int open_to_write(const std::string& path, int flags, mode_t mode, std::string* problem);

// A folder by rule 1, made with its parents where it is missing (mkdir -p). -1 with a problem where that fails.
int open_folder(const std::string& path, mode_t mode, std::string* problem);

// Writes a file at once: whoever opens the path at this moment finds the old content or the new one, and a link at the
// path is replaced. `folder` is a descriptor. False with errno set.
bool replace_file(int folder, const std::string& name, std::string_view content, mode_t mode);

}  // namespace ligerdsl::runtime
