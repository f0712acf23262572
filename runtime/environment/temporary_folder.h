// A folder of this process alone, for files that another program is to read.
#pragma once

#include <string>
#include <string_view>

namespace ligerdsl::runtime {

// Made under $TMPDIR (an empty or missing value: /tmp) with a name that nobody can foresee, for its owner only; removed
// with all that is in it when the object dies.
class TemporaryFolder {
 public:
  // Throws Error (EXECUTION_FAILED) that names the folder and the reason.
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }  // absolute
  // Writes a file that is not there yet and returns its path. Throws Error.
  std::string write(const std::string& name, std::string_view bytes) const;

 private:
  std::string path_;
};

}  // namespace ligerdsl::runtime
