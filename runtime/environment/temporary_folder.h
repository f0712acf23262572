// A private folder of this process for files that another program reads.
#pragma once

#include <string>
#include <string_view>

namespace ligerdsl::runtime {

// Creates a folder in $TMPDIR (/tmp if it is empty or unset) with an unpredictable name, for its
// owner only. The destructor removes it with its content.
class TemporaryFolder {
 public:
  // Throws Error (EXECUTION_FAILED) with the folder and the reason.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }  // absolute
  // Writes a new file and returns its path. Throws Error if it exists or cannot be written.
  std::string write(const std::string& name, std::string_view bytes) const;

 private:
  std::string path_;
};

}  // namespace ligerdsl::runtime
