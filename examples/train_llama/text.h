// Text as byte tokens: loading, the held-out part, and batches of windows.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config.h"

namespace train {

struct Text {
  std::vector<uint8_t> training, held_out;  // the last tenth of every file is held out
  size_t files = 0;
  uint64_t digest() const;  // hash of all text, to compare runs
};

// Returns the sources and documents under a folder, in a fixed order. Omits hidden folders, build
// folders and large files. Throws if there are none.
std::vector<std::filesystem::path> find_sources(const std::filesystem::path& root);
// Throws if a file cannot be read or is not text (text_kind.h), or if the text has less than a few
// windows of `context` tokens.
Text load_text(const std::vector<std::filesystem::path>& files, int64_t context);

// Tokens and labels of `count` windows: label i is the token after token i.
struct Batch {
  std::vector<int64_t> tokens, labels;
};
// Draws random windows; depends only on seed and step.
Batch training_batch(const Text& text, int64_t count, int64_t context, uint64_t seed, int64_t step);
// Returns batch `index` of `batches`. Their windows are spread evenly over the held-out text and
// are the same at every call.
Batch held_out_batch(const Text& text, int64_t count, int64_t context, int64_t index,
                     int64_t batches);

// Returns the bits per byte that a model reaches on the held-out text if it only knows the byte
// frequencies of the training text.
double byte_frequency_bits(const Text& text);

}  // namespace train
