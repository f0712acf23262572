// Detects files that were passed as text but are token files, weights or archives.
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

// Returns a description if the bytes are not text, else nullopt. Text is UTF-8 with at most one
// invalid byte in ten. Other files are refused, because a model would train on them without an
// error.
std::optional<NotText> not_text(std::span<const uint8_t> bytes);

}  // namespace train
