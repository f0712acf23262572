// Text as byte tokens: where it comes from, what is held out, and which windows a step sees.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config.h"

namespace train {

struct Text {
  std::vector<uint8_t> training, held_out;  // the last tenth of every file is held out
  size_t files = 0;
  uint64_t digest() const;  // of all of it: whether a resumed run reads what the first read
};

// The sources and documents under a folder, in a fixed order. Hidden folders, build folders and large files are left
// out. Throws when there are none.
std::vector<std::filesystem::path> find_sources(const std::filesystem::path& root);
// Throws when a file cannot be read or is no text (text_kind.h), or when there is less text than a few windows of
// `context` need.
Text load_text(const std::vector<std::filesystem::path>& files, int64_t context);

// Tokens and labels of `count` windows: label i is the token after token i.
struct Batch {
  std::vector<int64_t> tokens, labels;
};
// Windows drawn at random; a function of seed and step alone.
Batch training_batch(const Text& text, int64_t count, int64_t context, uint64_t seed, int64_t step);
// Windows spread evenly over the held-out text; batch `index` of `batches`, the same at every call.
Batch held_out_batch(const Text& text, int64_t count, int64_t context, int64_t index, int64_t batches);

// Bits per byte of a model that knows only how often each byte occurs in the training text, on the held-out text.
double byte_frequency_bits(const Text& text);

}  // namespace train
