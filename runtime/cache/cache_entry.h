// One entry of the disk cache as a file: its name, its header, and how a file is known to be one.
//
// Name: 64 hexadecimal digits of the key, then ".art" (an artifact) or ".cubin" (a GPU's machine code).
// Header, little-endian: magic[8] schema[4] key[32] label_bytes[4] payload_bytes[8] digest[32]. The label (text for
// people: kernel, target and build, a line each) and the payload follow; the digest is SHA-256 of both sizes, the label
// and the payload. `key` binds the header to the file's name. Its place and the magic's are those of every schema, so
// that a release knows another one's entries as the cache's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/system/sha256.h"

namespace ligerdsl::runtime {

inline constexpr const char* kArtifactSuffix = ".art";
inline constexpr const char* kCubinSuffix = ".cubin";

// No file larger than this is an entry. (A kernel's artifact has some 10 to 100 KiB.)
inline constexpr int64_t kMaxEntryBytes = int64_t{64} << 20;

// What people may read about an entry.
struct CacheLabel {
  std::string kernel;
  std::string target;
  std::string build;  // the build id of the library that stored it
};

struct EntryName {
  Digest key;
  std::string suffix;
};
std::string entry_name(const Digest& key, std::string_view suffix);
std::optional<EntryName> parse_entry_name(std::string_view name);

// Everything in front of the payload: header and label.
std::string encode_entry_head(const EntryName& name, const CacheLabel& label, std::string_view payload);

enum class EntryState : uint8_t {
  good,
  damaged,
  other_schema,  // of a release with another header
  foreign,       // no entry of a cache, whatever its name
};

// What the first bytes of a file say. Costs a few KiB of memory whatever the file's size and content.
struct EntryHead {
  EntryState state = EntryState::foreign;
  std::string why;  // not good: what is wrong with it
  CacheLabel label;
  int64_t payload_offset = 0, payload_bytes = 0;
  std::string digested;  // sizes and label, as the digest takes them
  Digest digest{};
};
EntryHead read_entry_head(int fd, int64_t file_bytes, const EntryName& name);

// Whether the payload is what was stored. Reads through a small buffer.
bool entry_digest_is_right(int fd, const EntryHead& head);
bool entry_digest_is_right(std::string_view payload, const EntryHead& head);

}  // namespace ligerdsl::runtime
