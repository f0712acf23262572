#include "checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace train {
static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelConfig, layers, heads, kv_heads, width, ffn, context, vocab, rope_base,
                                   norm_eps)

namespace {

constexpr char kMagic[8] = {'L', 'D', 'S', 'L', 'C', 'K', 'P', 'T'};
constexpr uint32_t kVersion = 1;
constexpr size_t kPrefix = sizeof(kMagic) + 2 * sizeof(uint32_t);

uint64_t fnv1a(const char* bytes, size_t count) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < count; ++i) hash = (hash ^ static_cast<uint8_t>(bytes[i])) * 0x100000001b3u;
  return hash;
}

void append(std::vector<char>& out, const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  out.insert(out.end(), from, from + bytes);
}

void write_file(const std::filesystem::path& path, const std::vector<char>& bytes) {
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) throw std::runtime_error("cannot write " + path.string() + ": " + std::strerror(errno));
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = write(file, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += n;
  }
  bool whole = done == bytes.size() && fsync(file) == 0;
  std::string reason = std::strerror(errno);
  close(file);
  if (!whole) throw std::runtime_error("cannot write " + path.string() + ": " + reason);
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const Checkpoint& c) {
  std::string description = nlohmann::json{{"model", c.model}, {"step", c.step}, {"elements", c.weights.size()}}.dump();
  uint32_t numbers[2] = {kVersion, static_cast<uint32_t>(description.size())};
  std::vector<char> bytes;
  append(bytes, kMagic, sizeof(kMagic));
  append(bytes, numbers, sizeof(numbers));
  append(bytes, description.data(), description.size());
  for (const auto* array : {&c.weights, &c.m, &c.v}) append(bytes, array->data(), array->size() * sizeof(float));
  uint64_t digest = fnv1a(bytes.data(), bytes.size());
  append(bytes, &digest, sizeof(digest));

  std::filesystem::path temporary = path;
  temporary += ".part";
  write_file(temporary, bytes);
  std::filesystem::rename(temporary, path);
}

Checkpoint load_checkpoint(const std::filesystem::path& path, const ModelConfig& expected) {
  auto reject = [&](const std::string& why) { throw std::runtime_error("checkpoint " + path.string() + ": " + why); };
  std::ifstream in(path, std::ios::binary);
  if (!in) reject("cannot be opened");
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  if (bytes.size() < kPrefix + 8 || std::memcmp(bytes.data(), kMagic, sizeof(kMagic))) reject("not a checkpoint");
  uint32_t numbers[2];
  std::memcpy(numbers, bytes.data() + sizeof(kMagic), sizeof(numbers));
  if (numbers[0] != kVersion) reject("format version " + std::to_string(numbers[0]) + ", this program reads 1");
  uint64_t digest;
  std::memcpy(&digest, bytes.data() + bytes.size() - 8, 8);
  if (digest != fnv1a(bytes.data(), bytes.size() - 8)) reject("damaged: its digest does not fit its contents");
  if (bytes.size() < kPrefix + numbers[1] + 8) reject("damaged: the description is cut off");

  const char* at = bytes.data() + kPrefix;
  nlohmann::json description = nlohmann::json::parse(at, at + numbers[1]);
  at += numbers[1];
  Checkpoint c;
  description.at("model").get_to(c.model);
  description.at("step").get_to(c.step);
  size_t elements = description.at("elements").get<size_t>();
  if (c.model != expected) {
    reject("its model is " + description["model"].dump() + ", this run's is " + nlohmann::json(expected).dump());
  }
  if (static_cast<size_t>(bytes.data() + bytes.size() - 8 - at) != 3 * elements * sizeof(float)) {
    reject("damaged: the arrays have the wrong length");
  }
  for (auto* array : {&c.weights, &c.m, &c.v}) {
    array->resize(elements);
    std::memcpy(array->data(), at, elements * sizeof(float));
    at += elements * sizeof(float);
  }
  return c;
}

}  // namespace train
