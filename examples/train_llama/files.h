// Writes files as a whole or not at all.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>

namespace train {

// Returns the name of the temporary file for `path`. write_whole overwrites and then removes it,
// whatever it contains.
std::filesystem::path temporary_of(const std::filesystem::path& path);

// Writes the pieces into temporary_of(path), syncs it, and renames it to `path`. A reader sees the
// old file or the new file, never a part of one. After a failure, the old file is unchanged and the
// temporary file is gone. A symbolic link stays a link. Special files (a terminal, a pipe) are
// written directly. Throws std::runtime_error with the path and the reason.
void write_whole(const std::filesystem::path& path, std::span<const std::string_view> pieces);
inline void write_whole(const std::filesystem::path& path, std::string_view text) {
  write_whole(path, std::span(&text, 1));
}

// Throws the error that write_whole would throw, without touching the file.
void require_writable(const std::filesystem::path& path);

}  // namespace train
