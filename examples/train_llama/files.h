// Files that are replaced as a whole or not at all.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace train {

// The file that stands beside `path` while it is written; replaced, and removed afterwards, whatever it holds.
std::filesystem::path temporary_of(const std::filesystem::path& path);

// Writes the pieces into temporary_of(path), waits until they are on the disk, and renames: a reader meets
// the old file or the new one, never a part, and a failure leaves the old one and no part. A symbolic link stays a
// link. What is no regular file (a terminal, a pipe) is written as it is. Throws std::runtime_error with the path and
// the reason.
void write_whole(const std::filesystem::path& path, std::span<const std::string_view> pieces);
inline void write_whole(const std::filesystem::path& path, std::string_view text) {
  write_whole(path, std::span(&text, 1));
}

// Throws what write_whole would throw, without touching the file.
void require_writable(const std::filesystem::path& path);

}  // namespace train
