#include "text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <stdexcept>

#include "checkpoint.h"
#include "random.h"
#include "text_kind.h"

namespace train {
namespace fs = std::filesystem;
namespace {

constexpr uintmax_t kLargestFile = 256 * 1024;  // larger files are probably data, not sources

bool is_source(const fs::path& path) {
  static const std::set<std::string> extensions = {".cpp", ".h",  ".hpp",   ".c",   ".td",
                                                   ".py",  ".md", ".cmake", ".mlir"};
  return extensions.count(path.extension().string()) || path.filename() == "CMakeLists.txt";
}

bool is_skipped_folder(const fs::path& path) {
  std::string name = path.filename().string();
  return name.starts_with(".") || name.starts_with("build");
}

std::vector<uint8_t> read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    throw std::runtime_error("cannot read text file " + path.string() + ": " +
                             std::strerror(errno));
  return {std::istreambuf_iterator<char>(in), {}};
}

void require_text(const fs::path& path, const std::vector<uint8_t>& bytes) {
  const std::optional<NotText> found = not_text(bytes);
  if (!found) return;
  throw std::runtime_error(path.string() + " is not a text file: it looks like " + found->what +
                           ". train_llama reads plain text, one token " + "per byte; " +
                           found->advice + ". Pass text files with --text");
}

void append_window(Batch& batch, const std::vector<uint8_t>& bytes, size_t start, int64_t context) {
  batch.tokens.insert(batch.tokens.end(), bytes.begin() + start, bytes.begin() + start + context);
  batch.labels.insert(batch.labels.end(), bytes.begin() + start + 1,
                      bytes.begin() + start + context + 1);
}

}  // namespace

uint64_t Text::digest() const {
  return fnv1a(held_out.data(), held_out.size(), fnv1a(training.data(), training.size()));
}

std::vector<fs::path> find_sources(const fs::path& root) {
  if (!fs::is_directory(root)) {
    throw std::runtime_error("--source-dir " + root.string() +
                             " is not a folder; pass one, or text files with --text");
  }
  std::vector<fs::path> files;
  const auto skip = fs::directory_options::skip_permission_denied;
  for (auto it = fs::recursive_directory_iterator(root, skip);
       it != fs::recursive_directory_iterator(); ++it) {
    if (it->is_directory() && is_skipped_folder(it->path())) it.disable_recursion_pending();
    if (it->is_regular_file() && is_source(it->path()) && it->file_size() <= kLargestFile)
      files.push_back(it->path());
  }
  if (files.empty()) {
    throw std::runtime_error("no sources or documents (.cpp, .h, .py, .md ...) under " +
                             root.string() +
                             "; pass another --source-dir, or text files with --text");
  }
  std::sort(files.begin(), files.end());
  return files;
}

Text load_text(const std::vector<fs::path>& files, int64_t context) {
  Text text;
  for (const fs::path& file : files) {
    std::vector<uint8_t> bytes = read_bytes(file);
    require_text(file, bytes);
    auto split = bytes.end() - static_cast<int64_t>(bytes.size() / 10);
    text.training.insert(text.training.end(), bytes.begin(), split);
    text.held_out.insert(text.held_out.end(), split, bytes.end());
    ++text.files;
  }
  size_t least = 4 * (context + 1);
  if (text.held_out.size() < least) {
    throw std::runtime_error(
        "the text is too short: the last tenth of each file is held out, here " +
        std::to_string(text.held_out.size()) + " of " +
        std::to_string(text.held_out.size() + text.training.size()) + " bytes, and a context of " +
        std::to_string(context) + " needs at least " + std::to_string(least) +
        "; pass more or larger files with --text, or a smaller --context");
  }
  return text;
}

Batch training_batch(const Text& text, int64_t count, int64_t context, uint64_t seed,
                     int64_t step) {
  Batch batch;
  size_t starts = text.training.size() - context;
  for (int64_t i = 0; i < count; ++i) {
    append_window(batch, text.training,
                  random_bits(seed ^ 0x7465787473u, step * count + i) % starts, context);
  }
  return batch;
}

Batch held_out_batch(const Text& text, int64_t count, int64_t context, int64_t index,
                     int64_t batches) {
  Batch batch;
  size_t last = text.held_out.size() - context - 1, windows = count * batches;
  for (int64_t i = 0; i < count; ++i) {
    append_window(batch, text.held_out,
                  last * (index * count + i) / std::max<size_t>(windows - 1, 1), context);
  }
  return batch;
}

double byte_frequency_bits(const Text& text) {
  std::array<double, 256> count;
  count.fill(1);  // so that every byte has a nonzero probability
  for (uint8_t byte : text.training) count[byte] += 1;
  double total = text.training.size() + 256.0, bits = 0;
  for (uint8_t byte : text.held_out) bits -= std::log2(count[byte] / total);
  return bits / text.held_out.size();
}

}  // namespace train
