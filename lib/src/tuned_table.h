// A table of tuned kernels: which configuration a kernel takes on a device.
//
// The file is JSON with a line for each entry, sorted, so that it is looked up as it is and a process with a large table
// starts at once:
//
//   {"ligerdsl_tuned_kernels": 1, "entries": {
//   "rms_norm_forward/1 cols=4096 type=bf16 @ sm_90a/132/NVIDIA H200": {"config": "keep=registers num_warps=8", ...},
//   ...
//   "": {}}}
//
// A key has the kernel, the version of its configuration, its options, and the device that it was tuned on:
// architecture, multiprocessors (CPU: threads) and model. What follows "config" is for people and for `ligerdsl table`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ligerdsl/dsl/meta.h"

namespace ligerdsl::lib {

struct TunedDevice {
  std::string arch;   // "sm_90a"; of a CPU its level, "x86-64-v3"
  int64_t units = 0;  // multiprocessors, or threads
  std::string model;  // "NVIDIA H200"
};

// "rms_norm_forward/1 cols=4096 type=bf16 @ sm_90a/132/NVIDIA H200"
std::string tuned_key(std::string_view kernel, int version, std::string_view options, const TunedDevice& device);

// "num_warps=8 rows=4" to its fields. Throws INVALID_ARGUMENT.
MetaValues config_values(std::string_view text);

class TunedTable {
 public:
  // Throws INVALID_ARGUMENT, with the name and the line, for text that is no table, of a newer format, not sorted, or
  // with an entry that has no configuration.
  TunedTable(std::string text, std::string name);
  // Throws INVALID_ARGUMENT for a file that cannot be read, too.
  static TunedTable read(const std::string& path);

  struct Found {
    std::string_view config;  // "num_warps=8 rows=4"
    std::string_view model;   // that it was tuned on
  };
  // Tuned on this model, else on another of as many units of the architecture. Takes no memory of its own.
  std::optional<Found> find(std::string_view kernel, int version, std::string_view options,
                            const TunedDevice& device) const;

  // Whether find() may have an answer for some GPU, or for some CPU.
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
  std::vector<uint32_t> lines_;  // where each begins
};

}  // namespace ligerdsl::lib
