// A table of tuned kernels maps a kernel and a device to a configuration.
//
// The file is JSON with one line per entry (wrapped here), in sorted order. It is searched as text,
// not parsed, so that a process with a large table starts quickly:
//
//   {"ligerdsl_tuned_kernels": 1, "entries": {
//   "rms_norm_forward/1 cols=4096 type=bf16 @ sm_90a/132/NVIDIA H200":
//     {"config": "keep=registers num_warps=8", ...},
//   ...
//   "": {}}}
//
// A key has the kernel, the version of its configuration, its options, and the device on which it
// was tuned: architecture, number of SMs (CPU: threads) and model. Members after "config" are for
// people and for `ligerdsl table`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ligerdsl/dsl/meta.h"

namespace ligerdsl::lib {

struct TunedDevice {
  std::string arch;   // "sm_90a"; CPU: LLVM's name, or the level "x86-64-v3"
  int64_t units = 0;  // SMs, or threads of a CPU
  std::string model;  // "NVIDIA H200"
};

// Returns the key: "rms_norm_forward/1 cols=4096 type=bf16 @ sm_90a/132/NVIDIA H200".
std::string tuned_key(std::string_view kernel, int version, std::string_view options,
                      const TunedDevice& device);

// Parses "num_warps=8 rows=4". Throws INVALID_ARGUMENT.
MetaValues config_values(std::string_view text);

class TunedTable {
 public:
  // Throws INVALID_ARGUMENT, with the name and the line, for text that is not a table, has another
  // format version, is not sorted, or has an entry without a configuration.
  TunedTable(std::string text, std::string name);
  // Also throws INVALID_ARGUMENT for a file that cannot be read.
  static TunedTable read(const std::string& path);

  struct Found {
    std::string_view config;  // "num_warps=8 rows=4"
    std::string_view model;   // model of the device on which it was tuned
  };
  // Returns the entry that was tuned on this model, else one for another model with the same
  // architecture and number of units.
  std::optional<Found> find(std::string_view kernel, int version, std::string_view options,
                            const TunedDevice& device) const;

  // Returns true if find() may return an entry for some GPU, or for some CPU if `gpu` is false.
  bool has(std::string_view kernel, int version, std::string_view options, bool gpu) const;

  const std::string& name() const { return name_; }
  size_t size() const { return lines_.size(); }
  struct Entry {
    std::string_view key, rest;  // rest: the JSON object
  };
  Entry entry(size_t i) const;

 private:
  std::vector<uint32_t>::const_iterator first_from(std::string_view key) const;

  std::string text_, name_;
  std::vector<uint32_t> lines_;  // offset of each entry's line
};

}  // namespace ligerdsl::lib
