// Files that are no text although somebody passed them as text: token files, weights, archives.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace train {

struct NotText {
  std::string what;  // "a gzip archive"
  std::string advice;  // "unpack it first: gzip -dc FILE > TEXT"
};

// Recognises the bytes of a whole file that is no text; returns nothing for text. A model learns from such bytes without an
// error, so they are refused. Text is UTF-8, except for one byte in ten at most.
std::optional<NotText> not_text(std::span<const uint8_t> bytes);

}  // namespace train
