// Trials as they were measured: JSON Lines, appended one by one, so that nothing is lost when a tuner ends, however it
// does. Several tuners may append to one file.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lib/tune/trial.h"
#include "runtime/system/files.h"

namespace ligerdsl::tune {

class Store {
 public:
  // Opens or makes the file, and its folders. Throws runtime::Error (INVALID_ARGUMENT) with the reason.
  explicit Store(const std::string& path);

  // How long append() waits for another process that has locked the file.
  static constexpr std::chrono::seconds kPatience{30};

  // What is there. A line that was torn is skipped; another that is no trial throws, with its number.
  std::vector<Trial> read() const;
  // One write of a whole line, on the disk when this returns. Throws runtime::Error where it is not, as on a full disk,
  // and where the file stays locked, or `stop` (a descriptor; -1: none) becomes readable meanwhile.
  void append(const Trial& trial, int stop = -1, std::chrono::milliseconds patience = kPatience);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  runtime::File file_;
};

// Of a file that is only read.
std::vector<Trial> read_trials(const std::string& path);

}  // namespace ligerdsl::tune
