// Saves the last good state of a run, and tracks it for messages.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint.h"

namespace train {

class Saver {
 public:
  // path: checkpoint to write, or empty to save nothing. resumed: the checkpoint that the run
  // resumed, or empty.
  Saver(std::filesystem::path path, std::filesystem::path resumed, int64_t resumed_step)
      : path_(std::move(path)), good_(std::move(resumed)), good_step_(resumed_step) {}

  bool wanted() const { return !path_.empty(); }
  // Saves if wanted. A full disk does not stop the training: the previous file stays, and one
  // warning gives the reason.
  void save(const Checkpoint& checkpoint);

  // Returns the newest saved state, of this run or the one that it resumed, or an empty path.
  const std::filesystem::path& good() const { return good_; }
  int64_t good_step() const { return good_step_; }
  const std::string& failure() const { return failure_; }  // of the latest save; "" = success

 private:
  const std::filesystem::path path_;
  std::filesystem::path good_;
  int64_t good_step_;
  std::string failure_;
};

}  // namespace train
