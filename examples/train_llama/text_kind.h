// Detects files that were passed as text but are not: token files, weights, archives.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace train {

struct NotText {
  std::string what;    // "a gzip archive"
  std::string advice;  // "unpack it first: gzip -dc FILE > TEXT"
};

// Recognises a file that is not text by its bytes; returns nothing for text. Such files are
// refused, because a model would train on them without an error. Text is UTF-8 with at most one
// invalid byte in ten.
std::optional<NotText> not_text(std::span<const uint8_t> bytes);

}  // namespace train
