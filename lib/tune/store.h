// Trials as they were measured: JSON Lines, appended one by one, so that nothing is lost when a tuner ends, however it
// does. Several tuners may append to one file.
#pragma once

#include <string>
#include <vector>

#include "lib/tune/trial.h"
#include "runtime/files.h"

namespace ligerdsl::tune {

class Store {
 public:
  // Opens or makes the file, and its folders. Throws runtime::Error (INVALID_ARGUMENT) with the reason.
  explicit Store(const std::string& path);

  // What is there. A line that was torn is skipped; another that is no trial throws, with its number.
  std::vector<Trial> read() const;
  // One write of a whole line, on the disk when this returns. Throws runtime::Error where it is not, as on a full disk.
  void append(const Trial& trial);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  runtime::File file_;
};

// Of a file that is only read.
std::vector<Trial> read_trials(const std::string& path);

}  // namespace ligerdsl::tune
