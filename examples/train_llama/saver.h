// Saves the states of a run, and records the last good one for messages.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint.h"

namespace train {

class Saver {
 public:
  // path: checkpoint to write, or empty to save nothing. resumed: checkpoint from which the run
  // resumed, or empty.
  Saver(std::filesystem::path path, std::filesystem::path resumed, int64_t resumed_step)
      : path_(std::move(path)), good_(std::move(resumed)), good_step_(resumed_step) {}

  bool wanted() const { return !path_.empty(); }
  // Saves the state if a path is given. If that fails, for example on a full disk, the previous
  // file stays, one warning gives the reason, and the training continues.
  void save(const Checkpoint& checkpoint);

  // Returns the path of the newest good checkpoint: one that this run saved, else the one it
  // resumed from, else empty.
  const std::filesystem::path& good() const { return good_; }
  int64_t good_step() const { return good_step_; }
  const std::string& failure() const { return failure_; }  // error of the latest save, or ""

 private:
  const std::filesystem::path path_;
  std::filesystem::path good_;
  int64_t good_step_;
  std::string failure_;
};

}  // namespace train
