// A training run on disk. A run that resumes from it gives the same bits, and shows the whole loss
// curve.
//
//   8 bytes   "LDSLCKPT"
//   4 bytes   format version, 4 bytes length of the description
//   ...       description, JSON: the model's sizes, the settings of the training, the step, the
//             length of each array
//   ...       weights, first and second moments, the loss of each step: f32
//   ...       held-out evaluations: step i64, bits f64
//   8 bytes   FNV-1a digest of all bytes before
// Numbers are little-endian. The digest detects accidental damage, not deliberate changes.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "config.h"
#include "history.h"

namespace train {

struct Checkpoint {
  ModelConfig model;
  TrainConfig train;
  uint64_t text = 0;  // digest of the training text
  int64_t step = 0;   // completed steps
  std::vector<float> weights, m, v;
  History history;
};

// Thrown if a loss, gradient, weight or moment is infinite or NaN. The last saved checkpoint is
// unchanged.
struct Diverged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Replaces the file as a whole or not at all. Throws Diverged, without writing, if a weight or
// moment is not finite.
void save_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
// Throws an error with the reason if the file is not a complete checkpoint of this format, belongs
// to another model than `expected`, or contains numbers that are not finite.
Checkpoint load_checkpoint(const std::filesystem::path& path, const ModelConfig& expected);
// Model and step count, read from the beginning of a file. read_summary throws if the file does not
// begin like a checkpoint.
struct Summary {
  ModelConfig model;
  int64_t step = 0;
};
Summary read_summary(const std::filesystem::path& path);

// Returns the differences between a checkpoint's settings and this run's, as command-line options.
// Returns "" if all settings that affect the data or the learning rate are equal.
std::string differences(const Checkpoint& checkpoint, const TrainConfig& train, uint64_t text);

uint64_t fnv1a(const void* bytes, size_t count, uint64_t hash = 0xcbf29ce484222325u);

}  // namespace train
