// A private folder of this process for files that another program reads.
#pragma once

#include <string>
#include <string_view>

namespace ligerdsl::runtime {

// Creates a folder with an unpredictable name in $TMPDIR, or in /tmp without this variable. Only
// this user can enter it. The destructor removes the folder with its content.
class TemporaryFolder {
 public:
  // Throws EXECUTION_FAILED with the path and the reason if the folder cannot be created.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }  // absolute
  // Writes a new file and returns its path. Throws Error if the file exists or cannot be written.
  std::string write(const std::string& name, std::string_view bytes) const;

 private:
  std::string path_;
};

}  // namespace ligerdsl::runtime
