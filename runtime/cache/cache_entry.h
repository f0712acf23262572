// One entry of the disk cache as a file: its name and its header.
//
// Name: 64 hexadecimal digits of the key, then ".art" (an artifact) or ".cubin" (a GPU's machine
// code).
//
// Header, little-endian: magic[8] schema[4] key[32] label_bytes[4] payload_bytes[8] digest[32]. The
// label and the payload follow. The label is text for people: kernel, target and build, one per
// line. The digest is the SHA-256 of both sizes, the label and the payload. `key` is a digest of
// the file's name. The magic and the key have the same position in every schema, so that a release
// recognises the entries of other releases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/system/sha256.h"

namespace ligerdsl::runtime {

inline constexpr const char* kArtifactSuffix = ".art";
inline constexpr const char* kCubinSuffix = ".cubin";

// Largest size of an entry in bytes. A kernel's artifact has about 10 to 100 KiB.
inline constexpr int64_t kMaxEntryBytes = int64_t{64} << 20;

// Description of an entry, for people.
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

// Returns the bytes before the payload: the header and the label.
std::string encode_entry_head(const EntryName& name, const CacheLabel& label,
                              std::string_view payload);

enum class EntryState : uint8_t {
  good,
  damaged,
  other_schema,  // written by a release with another schema
  foreign,       // not a cache entry, even if it has an entry's name
};

// The header and the label of a file. Reading them takes a few KiB of memory for any size of file.
struct EntryHead {
  EntryState state = EntryState::foreign;
  std::string why;  // reason, if the state is not `good`
  CacheLabel label;
  int64_t payload_offset = 0, payload_bytes = 0;
  std::string digested;  // digested bytes before the payload: both sizes and the label
  Digest digest{};
};
EntryHead read_entry_head(int fd, int64_t file_bytes, const EntryName& name);

// Return true if the digest of sizes, label and payload is the header's digest. The first overload
// reads the payload from the file in small parts.
bool entry_digest_is_right(int fd, const EntryHead& head);
bool entry_digest_is_right(std::string_view payload, const EntryHead& head);

}  // namespace ligerdsl::runtime
