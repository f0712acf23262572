// The file of `ligerdsl cache warm`: descriptions of operations, and what to compile them for.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ligerdsl::cli {

struct WarmEntry {
  std::string where;  // "FILE:3" or "FILE, element 3", for messages
  std::string operation;
  std::vector<std::string> settings;  // name=value, as `ligerdsl run` takes them
  std::optional<std::string> target, ptx;
  std::optional<int> multiprocessors;
};

// JSON: an array of objects, or an object per line. Each has "operation", may have "target" ("cpu", "sm_90a"), "ptx"
// ("9.0") and "multiprocessors", and whatever else it has is a setting. "-" is stdin. Throws Failure (kUsage).
std::vector<WarmEntry> read_warm_file(const std::string& path);

// "9.0" as 90. Throws Failure (kUsage).
int parse_ptx_version(const std::string& text, const std::string& where);

}  // namespace ligerdsl::cli
