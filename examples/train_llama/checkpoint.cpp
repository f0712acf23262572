#include "checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "files.h"

namespace train {
static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelConfig, layers, heads, kv_heads, width, ffn, context, vocab,
                                   rope_base, norm_eps)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainConfig, batch, steps, warmup, lr, final_lr, beta1, beta2,
                                   adam_eps, weight_decay, clip, seed)

namespace {

using nlohmann::json;

constexpr char kMagic[8] = {'L', 'D', 'S', 'L', 'C', 'K', 'P', 'T'};
constexpr uint32_t kVersion = 2;
constexpr uint32_t kLongestDescription = 1 << 20;

std::string_view bytes_of(const auto& array) {
  return {reinterpret_cast<const char*>(array.data()), array.size() * sizeof(array[0])};
}

// Converts "kv_heads" to "--kv-heads".
std::string option(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

// Calls body(key, value of a, value of b) for each value that differs between two objects with the
// same keys.
template <class Body>
void for_each_difference(const json& a, const json& b, Body body) {
  for (const auto& [key, value] : a.items()) {
    if (b.at(key) != value) body(key, value.dump(), b.at(key).dump());
  }
}

std::string other_model(const ModelConfig& found, const ModelConfig& expected) {
  std::string text, options;
  for_each_difference(
      found, expected,
      [&](const std::string& key, const std::string& of_file, const std::string& ours) {
        text += fmt::format("{}{} {} (this run: {})", text.empty() ? "" : ", ", key, of_file, ours);
        options += fmt::format(" {} {}", option(key), of_file);
      });
  return "it belongs to another model: " + text + "; to continue from it, pass" + options;
}

bool all_finite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

const char* not_finite(const Checkpoint& c) {
  return !all_finite(c.weights)                 ? "weights"
         : !all_finite(c.m) || !all_finite(c.v) ? "moments of the optimiser"
                                                : nullptr;
}

// Reads a checkpoint sequentially. Before it allocates an array, it checks that the file has that
// many bytes left.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path) {
    std::error_code error;
    if (std::filesystem::is_other(path, error))
      reject("is not a regular file");  // opening a pipe would block
    in_.open(path, std::ios::binary);
    left_ = std::filesystem::file_size(path, error);
    if (!in_ || error)
      reject("cannot be opened" + (error ? ": " + error.message() : std::string()));
  }

  [[noreturn]] void reject(const std::string& why) const {
    throw std::runtime_error("checkpoint " + path_.string() + ": " + why);
  }

  json description() {
    char magic[sizeof(kMagic)];
    if (left_ < sizeof(magic)) reject("not a checkpoint of train_llama");
    read(magic, sizeof(magic));
    if (std::memcmp(magic, kMagic, sizeof(magic))) reject("not a checkpoint of train_llama");
    uint32_t numbers[2];
    read(numbers, sizeof(numbers));
    if (numbers[0] != kVersion) {
      reject(
          fmt::format("it has format version {}, this program reads {}; continue with the program "
                      "that wrote it, or start a new run",
                      numbers[0], kVersion));
    }
    if (numbers[1] > kLongestDescription)
      reject("damaged: its description has an impossible length");
    std::string text(std::min<uint64_t>(numbers[1], left_), ' ');
    read(text.data(), numbers[1]);
    json description = json::parse(text, nullptr, false);
    if (!description.is_object()) reject("damaged: its description cannot be read");
    return description;
  }

  template <class T>
  void array(std::vector<T>& out, uint64_t elements) {
    if (elements > left_ / sizeof(T)) cut_off();
    out.resize(elements);
    read(out.data(), elements * sizeof(T));
  }

  void digest() {
    const uint64_t computed = hash_;
    uint64_t stored = 0;
    read(&stored, sizeof(stored));
    if (stored != computed) reject("damaged: its digest does not match its contents");
    if (left_) reject(fmt::format("damaged: {} bytes too long", left_));
  }

 private:
  [[noreturn]] void cut_off() const { reject("damaged: the file is truncated"); }

  void read(void* to, uint64_t bytes) {
    if (bytes > left_ || !in_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes)))
      cut_off();
    hash_ = fnv1a(to, bytes, hash_);
    left_ -= bytes;
  }

  const std::filesystem::path path_;
  std::ifstream in_;
  uint64_t left_ = 0, hash_ = fnv1a(nullptr, 0);
};

// Runs `body`. If it throws a JSON exception, for example for a missing or mistyped entry, rejects
// the file.
template <class Body>
void interpret(const Reader& reader, Body body) {
  try {
    body();
  } catch (const json::exception&) {
    reader.reject("damaged: its description is not complete");
  }
}

}  // namespace

uint64_t fnv1a(const void* bytes, size_t count, uint64_t hash) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  for (size_t i = 0; i < count; ++i) hash = (hash ^ at[i]) * 0x100000001b3u;
  return hash;
}

void save_checkpoint(const std::filesystem::path& path, const Checkpoint& c) {
  if (const char* what = not_finite(c)) {
    throw Diverged(fmt::format("after step {} some {} are infinite or not a number", c.step, what));
  }
  const std::string description = json{
      {"model", c.model},
      {"train", c.train},
      {"text", c.text},
      {"step", c.step},
      {"elements", c.weights.size()},
      {"losses", c.history.losses.size()},
      {"evaluations",
       c.history.held_out.size()}}.dump();
  const std::array<uint32_t, 2> numbers{kVersion, static_cast<uint32_t>(description.size())};
  static_assert(sizeof(Point) == 16, "an evaluation is a step and a number of bits");
  std::vector<std::string_view> pieces{{kMagic, sizeof(kMagic)},
                                       bytes_of(numbers),
                                       description,
                                       bytes_of(c.weights),
                                       bytes_of(c.m),
                                       bytes_of(c.v),
                                       bytes_of(c.history.losses),
                                       bytes_of(c.history.held_out)};
  std::array<uint64_t, 1> digest{fnv1a(nullptr, 0)};
  for (std::string_view piece : pieces) digest[0] = fnv1a(piece.data(), piece.size(), digest[0]);
  pieces.push_back(bytes_of(digest));
  write_whole(path, pieces);
}

Checkpoint load_checkpoint(const std::filesystem::path& path, const ModelConfig& expected) {
  Reader reader(path);
  const json description = reader.description();
  Checkpoint c;
  interpret(reader, [&] {
    const auto elements = description.at("elements").get<uint64_t>();
    reader.array(c.weights, elements);
    reader.array(c.m, elements);
    reader.array(c.v, elements);
    reader.array(c.history.losses, description.at("losses").get<uint64_t>());
    reader.array(c.history.held_out, description.at("evaluations").get<uint64_t>());
    reader.digest();
    description.at("model").get_to(c.model);
    description.at("train").get_to(c.train);
    description.at("text").get_to(c.text);
    description.at("step").get_to(c.step);
  });
  if (c.model != expected) reader.reject(other_model(c.model, expected));
  if (c.step < 0 || static_cast<uint64_t>(c.step) != c.history.losses.size()) {
    reader.reject(
        fmt::format("damaged: it has {} losses for {} steps", c.history.losses.size(), c.step));
  }
  if (const char* what = not_finite(c))
    reader.reject(fmt::format("some of its {} are infinite or not a number", what));
  return c;
}

Summary read_summary(const std::filesystem::path& path) {
  Reader reader(path);
  const json description = reader.description();
  Summary summary;
  interpret(reader, [&] {
    description.at("model").get_to(summary.model);
    description.at("step").get_to(summary.step);
  });
  return summary;
}

std::string differences(const Checkpoint& c, const TrainConfig& train, uint64_t text) {
  std::string out = c.text == text ? "" : "another text";
  for_each_difference(
      c.train, train, [&](const std::string& key, const std::string& then, const std::string& now) {
        out += fmt::format("{}{} {} (was {})", out.empty() ? "" : ", ", option(key), now, then);
      });
  return out;
}

}  // namespace train
