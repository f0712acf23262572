// A training run on disk: enough to continue it bit for bit.
//
//   8 bytes   "LDSLCKPT"
//   4 bytes   format version, 4 bytes length of the description
//   ...       description, JSON: the model's sizes, the step, the number of elements of each array
//   ...       weights, first and second moments: f32 arrays of that many elements
//   8 bytes   FNV-1a digest of all bytes before
// Numbers are little-endian. The digest finds damage, not malice.
#pragma once

#include <filesystem>
#include <vector>

#include "config.h"

namespace train {

struct Checkpoint {
  ModelConfig model;
  int64_t step = 0;  // steps done
  std::vector<float> weights, m, v;
};

// Writes beside the target, then renames: a reader meets the old file or the new one, never a part.
void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
// Throws when the file is not a whole checkpoint, or is one of another model.
Checkpoint load_checkpoint(const std::filesystem::path& path, const ModelConfig& expected);

}  // namespace train
