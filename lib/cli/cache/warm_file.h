// File of `ligerdsl cache warm`: descriptions of operations and their targets.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ligerdsl::cli {

struct WarmEntry {
  std::string where;  // "FILE:3" or "FILE, element 3", for errors
  std::string operation;
  std::vector<std::string> settings;  // name=value, in the syntax of `ligerdsl run`
  std::optional<std::string> target, ptx;
  std::optional<int> multiprocessors;
};

// Reads JSON: an array of objects, or one object per line; "-" is stdin. Throws Failure (kUsage).
// Members of an object:
// - `operation`, which is required,
// - `target` ("cpu", "sm_90a"), `ptx` ("9.0") and `multiprocessors`, which are optional,
// - settings.
std::vector<WarmEntry> read_warm_file(const std::string& path);

// Returns 90 for "9.0". Throws Failure (kUsage).
int parse_ptx_version(const std::string& text, const std::string& where);

}  // namespace ligerdsl::cli
