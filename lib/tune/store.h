// File of trials, as JSON Lines. Each trial is appended at once, so none is lost if a tuner
// crashes. Several tuners may append to one file.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lib/tune/trial.h"
#include "runtime/system/files.h"

namespace ligerdsl::tune {

class Store {
 public:
  // Opens or creates the file and its folders. Throws runtime::Error (INVALID_ARGUMENT) with the
  // reason.
  explicit Store(const std::string& path);

  // Time that append() waits for another process to release the file's lock.
  static constexpr std::chrono::seconds kPatience{30};

  // Returns the trials in the file. Skips an incomplete line; throws, with the line's number, for
  // any other invalid line.
  std::vector<Trial> read() const;
  // Appends one line and waits until it is on disk. Throws runtime::Error if writing fails, if the
  // file stays locked, or if the descriptor `stop` becomes readable during the wait; -1 means no
  // descriptor.
  void append(const Trial& trial, int stop = -1, std::chrono::milliseconds patience = kPatience);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  runtime::File file_;
};

// Returns the trials in a file. Does not open it for writing.
std::vector<Trial> read_trials(const std::string& path);

}  // namespace ligerdsl::tune
