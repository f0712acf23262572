#include "text_kind.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace train {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr const char* kTokens = "pass the text that the tokens were made from";
constexpr const char* kWeights =
    "weights are not read; train_llama starts from random ones, or from its own checkpoint with "
    "--resume";
constexpr const char* kTable = "write its column of text into a file, one document after another";
constexpr const char* kNoText = "pass plain text, such as .txt, .md or sources";

struct Signature {
  std::string_view begin;
  const char *what, *advice;
};

// A literal is split after a hexadecimal escape if the next character is also a hexadecimal
// digit, which would extend the escape.
constexpr std::array kSignatures = {
    Signature{"\x93NUMPY", "a NumPy array (.npy)", kTokens},
    Signature{"GGUF", "model weights (GGUF)", kWeights},
    Signature{"\x1f\x8b", "a gzip archive", "unpack it first: gzip -dc FILE > TEXT"},
    Signature{"PK\x03\x04", "a zip archive (also .npz, and PyTorch's .pt)",
              "unpack it first, and pass the text in it: unzip FILE"},
    Signature{"\x28\xb5\x2f\xfd", "a zstd archive", "unpack it first: zstd -dc FILE > TEXT"},
    Signature{std::string_view("\xfd"
                               "7zXZ\0",
                               6),
              "an xz archive", "unpack it first: xz -dc FILE > TEXT"},
    Signature{"BZh", "a bzip2 archive", "unpack it first: bzip2 -dc FILE > TEXT"},
    Signature{"\x04\x22\x4d\x18", "an lz4 archive", "unpack it first: lz4 -dc FILE > TEXT"},
    Signature{"PAR1", "a Parquet table", kTable},
    Signature{std::string_view("ARROW1\0", 7), "an Arrow table", kTable},
    Signature{"\x89HDF", "an HDF5 file", kTable},
    Signature{"\x7f"
              "ELF",
              "a program or library", kNoText},
    Signature{"%PDF-", "a PDF document", "convert it first: pdftotext FILE TEXT"},
    Signature{"\xff\xfe", "text in UTF-16",
              "convert it first: iconv -f UTF-16 -t UTF-8 FILE > TEXT"},
    Signature{"\xfe\xff", "text in UTF-16",
              "convert it first: iconv -f UTF-16 -t UTF-8 FILE > TEXT"},
};

uint64_t little_endian(Bytes bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = size; i-- > 0;) value = value << 8 | bytes[at + i];
  return value;
}

// Files of llm.c have a header of 1 KiB. It begins with a magic number that looks like a date
// (20240520 for two-byte tokens) and a version.
std::optional<NotText> llm_c(Bytes bytes) {
  constexpr size_t kHeader = 1024;
  if (bytes.size() < kHeader) return std::nullopt;
  const uint64_t date = little_endian(bytes, 0, 4), month = date / 100 % 100, day = date % 100;
  const bool is_date =
      date >= 20230101 && date < 20400101 && month >= 1 && month <= 12 && day >= 1 && day <= 31;
  if (!is_date || little_endian(bytes, 4, 4) > 100) return std::nullopt;
  const std::string magic = " of llm.c (magic " + std::to_string(date) + ")";
  const bool tokens = date == 20240520 || date == 20240801;
  return NotText{(tokens ? "a file of tokens" : "a file of tokens or weights") + magic, kTokens};
}

// Returns true if the bytes begin like safetensors: a u64 size of a JSON header, then `{`.
bool is_safetensors(Bytes bytes) {
  if (bytes.size() < 10) return false;
  const uint64_t header = little_endian(bytes, 0, 8);
  return header >= 2 && header <= bytes.size() - 8 && bytes[8] == '{';
}

// Returns the number of bytes that belong to no valid UTF-8 character.
size_t not_utf8(Bytes bytes) {
  size_t wrong = 0;
  for (size_t i = 0; i < bytes.size();) {
    const uint8_t first = bytes[i];
    const size_t length = first < 0x80   ? 1
                          : first < 0xc2 ? 0
                          : first < 0xe0 ? 2
                          : first < 0xf0 ? 3
                          : first < 0xf5 ? 4
                                         : 0;
    size_t got = length == 0 ? 0 : 1;
    while (got > 0 && got < length && i + got < bytes.size() && (bytes[i + got] & 0xc0) == 0x80)
      ++got;
    if (length > 0 && got == length) {
      i += length;
      continue;
    }
    ++wrong;
    ++i;
  }
  return wrong;
}

std::optional<NotText> binary(Bytes bytes) {
  const auto zeros = static_cast<size_t>(std::count(bytes.begin(), bytes.end(), 0));
  const auto percent = [&](size_t count) {
    return std::to_string(100 * count / bytes.size()) + " % of its bytes are ";
  };
  if (zeros > bytes.size() / 100)
    return NotText{"binary data: " + percent(zeros) + "zero",
                   std::string(kTokens) + ", or other plain text"};
  const size_t wrong = not_utf8(bytes);
  if (wrong > bytes.size() / 10)
    return NotText{"binary data, or text in another encoding: " + percent(wrong) + "not UTF-8",
                   "pass plain text, or convert it first: iconv -f ENCODING -t UTF-8 FILE > TEXT"};
  return std::nullopt;
}

}  // namespace

std::optional<NotText> not_text(std::span<const uint8_t> bytes) {
  const std::string_view begin(reinterpret_cast<const char*>(bytes.data()),
                               std::min<size_t>(bytes.size(), 16));
  for (const Signature& known : kSignatures) {
    if (begin.starts_with(known.begin)) return NotText{known.what, known.advice};
  }
  if (is_safetensors(bytes)) return NotText{"model weights (safetensors)", kWeights};
  if (auto found = llm_c(bytes)) return found;
  return binary(bytes);
}

}  // namespace train
