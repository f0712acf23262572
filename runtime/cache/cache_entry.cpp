#include "runtime/cache/cache_entry.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "runtime/system/files.h"

namespace ligerdsl::runtime {
namespace {

constexpr std::string_view kMagic = "LGDSLKRN";
constexpr uint32_t kSchema = 2;
constexpr size_t kSchemaAt = 8, kKeyAt = 12, kSizesAt = 44, kPayloadSizeAt = 48, kDigestAt = 56,
                 kHeaderBytes = 88;
constexpr size_t kMaxLabelBytes = 4096;

std::string_view view(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

void append_number(std::string& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i));
}

uint64_t number(std::string_view from, size_t at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i)
    value |= uint64_t{static_cast<uint8_t>(from[at + static_cast<size_t>(i)])} << (8 * i);
  return value;
}

Digest bound_key(const EntryName& name) {
  return Sha256().field(view(name.key)).field(name.suffix).finish();
}

int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Returns `text` as one line of the label: without inner line breaks, at most kMaxLabelBytes / 4
// bytes.
std::string line(std::string text) {
  std::erase(text, '\n');
  return text.substr(0, kMaxLabelBytes / 4) + "\n";
}

CacheLabel parse_label(std::string_view text) {
  CacheLabel label;
  for (std::string* to : {&label.kernel, &label.target, &label.build}) {
    const size_t end = std::min(text.find('\n'), text.size());
    *to = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return label;
}

// Reads `size` bytes. Returns false after an error, or with errno 0 at the end of the file.
bool read_at(int fd, int64_t offset, char* to, size_t size) {
  while (size > 0) {
    const ssize_t got = pread(fd, to, size, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = 0;
    if (got <= 0) return false;
    to += got, offset += got, size -= static_cast<size_t>(got);
  }
  return true;
}

// Returns why read_at() has just failed.
std::string read_failure() {
  return errno != 0 ? "it cannot be read: " + error_text(errno) : "it became shorter";
}

}  // namespace

std::string entry_name(const Digest& key, std::string_view suffix) {
  return hex(key) + std::string(suffix);
}

std::optional<EntryName> parse_entry_name(std::string_view name) {
  EntryName result;
  const size_t digits = 2 * result.key.size();
  if (name.size() <= digits) return std::nullopt;
  result.suffix = name.substr(digits);
  if (result.suffix != kArtifactSuffix && result.suffix != kCubinSuffix) return std::nullopt;
  for (size_t i = 0; i < result.key.size(); ++i) {
    const int high = hex_digit(name[2 * i]), low = hex_digit(name[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    result.key[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return result;
}

std::string encode_entry_head(const EntryName& name, const CacheLabel& label,
                              std::string_view payload) {
  const std::string text = line(label.kernel) + line(label.target) + line(label.build);
  std::string sizes;
  append_number(sizes, text.size(), 4);
  append_number(sizes, payload.size(), 8);
  std::string bytes(kMagic);
  append_number(bytes, kSchema, 4);
  bytes += view(bound_key(name));
  bytes += sizes;
  bytes += view(Sha256().update(sizes).update(text).update(payload).finish());
  return bytes + text;
}

EntryHead read_entry_head(int fd, int64_t file_bytes, const EntryName& name) {
  EntryHead head;
  std::array<char, kHeaderBytes + kMaxLabelBytes> bytes;
  const auto refuse = [&](EntryState state, const std::string& why) {
    head.state = state;
    head.why = why;
    return head;
  };
  if (file_bytes > kMaxEntryBytes)
    return refuse(EntryState::foreign, "it has " + std::to_string(file_bytes) +
                                           " bytes, and an entry has at most " +
                                           std::to_string(kMaxEntryBytes));
  if (file_bytes < static_cast<int64_t>(kSizesAt))
    return refuse(EntryState::foreign, "it has " + std::to_string(file_bytes) +
                                           " bytes, too few for the header of an entry");
  if (!read_at(fd, 0, bytes.data(), kSizesAt)) return refuse(EntryState::foreign, read_failure());
  const std::string_view text(bytes.data(), bytes.size());
  if (!text.starts_with(kMagic))
    return refuse(EntryState::foreign,
                  "it does not begin with " + std::string(kMagic) + ", as every entry does");
  if (text.substr(kKeyAt, sizeof(Digest)) != view(bound_key(name)))
    return refuse(EntryState::foreign, "its header belongs to an entry with another name");
  if (const uint64_t schema = number(text, kSchemaAt, 4); schema != kSchema)
    return refuse(EntryState::other_schema, "it has format " + std::to_string(schema) +
                                                " of another release; this release uses format " +
                                                std::to_string(kSchema));
  if (file_bytes < static_cast<int64_t>(kHeaderBytes))
    return refuse(EntryState::damaged, "its header is cut short: it has " +
                                           std::to_string(file_bytes) + " of " +
                                           std::to_string(kHeaderBytes) + " bytes");
  if (!read_at(fd, 0, bytes.data(), kHeaderBytes))
    return refuse(EntryState::damaged, read_failure());
  const uint64_t label_bytes = number(text, kSizesAt, 4),
                 payload_bytes = number(text, kPayloadSizeAt, 8);
  if (label_bytes > kMaxLabelBytes || payload_bytes > static_cast<uint64_t>(kMaxEntryBytes) ||
      kHeaderBytes + label_bytes + payload_bytes != static_cast<uint64_t>(file_bytes))
    return refuse(EntryState::damaged,
                  "its size of " + std::to_string(file_bytes) + " bytes does not match its header");
  if (!read_at(fd, kHeaderBytes, bytes.data() + kHeaderBytes, label_bytes))
    return refuse(EntryState::damaged, read_failure());
  head.state = EntryState::good;
  head.label = parse_label(text.substr(kHeaderBytes, label_bytes));
  head.payload_offset = static_cast<int64_t>(kHeaderBytes + label_bytes);
  head.payload_bytes = static_cast<int64_t>(payload_bytes);
  head.digested = std::string(text.substr(kSizesAt, kDigestAt - kSizesAt)) +
                  std::string(text.substr(kHeaderBytes, label_bytes));
  std::copy_n(bytes.begin() + kDigestAt, head.digest.size(), head.digest.begin());
  return head;
}

bool entry_digest_is_right(int fd, const EntryHead& head) {
  Sha256 digest;
  digest.update(head.digested);
  std::array<char, 16384> buffer;
  for (int64_t done = 0; done < head.payload_bytes;) {
    const auto size =
        static_cast<size_t>(std::min<int64_t>(head.payload_bytes - done, buffer.size()));
    if (!read_at(fd, head.payload_offset + done, buffer.data(), size)) return false;
    digest.update({buffer.data(), size});
    done += static_cast<int64_t>(size);
  }
  return digest.finish() == head.digest;
}

bool entry_digest_is_right(std::string_view payload, const EntryHead& head) {
  return Sha256().update(head.digested).update(payload).finish() == head.digest;
}

}  // namespace ligerdsl::runtime
