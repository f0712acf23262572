// Keeps the last good state of a run on the disk, and knows what to tell the user about it.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint.h"

namespace train {

class Saver {
 public:
  // path: empty = nothing is saved. resumed: the checkpoint that the run went on from, or empty.
  Saver(std::filesystem::path path, std::filesystem::path resumed, int64_t resumed_step)
      : path_(std::move(path)), good_(std::move(resumed)), good_step_(resumed_step) {}

  bool wanted() const { return !path_.empty(); }
  // Only if wanted. A disk that is full stops no training: the file of the last time stays, and one warning says why.
  void save(const Checkpoint& checkpoint);

  // The newest state on the disk, of this run or the one that it went on from; an empty path if there is none.
  const std::filesystem::path& good() const { return good_; }
  int64_t good_step() const { return good_step_; }
  const std::string& failure() const { return failure_; }  // of the latest save; "" = it is on the disk

 private:
  const std::filesystem::path path_;
  std::filesystem::path good_;
  int64_t good_step_;
  std::string failure_;
};

}  // namespace train
