// Configurations of a context's kernels from tables of tuned kernels: the user's table first, then
// the shipped ones.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/abi/kernel_configs.h"
#include "lib/abi/tuned_table.h"
#include "runtime/environment/options.h"

namespace ligerdsl::lib {

// Source of a configuration, for `ligerdsl explain`.
struct ConfigSource {
  MetaValues values;                  // fields that differ from the heuristic's
  const TunedTable* table = nullptr;  // null: the heuristic's configuration
  std::string model;                  // model of the device on which the entry was tuned
  std::vector<std::string>
      passed;  // one sentence for each entry that was not used, with the reason
};

// Returns the line of the log for a configuration from a table.
std::string taken_text(std::string_view call, const TunedTable& table, std::string_view model);

class TunedConfigs final : public KernelConfigs {
 public:
  // Searches the tables in their order. Calls `device` only if a table has an entry for the kernel
  // on a device of this kind, because naming a CPU loads the compiler.
  TunedConfigs(std::vector<std::shared_ptr<const TunedTable>> tables, runtime::Tuning tuning,
               std::function<bool()> is_gpu, std::function<TunedDevice()> device)
      : tables_(std::move(tables)),
        tuning_(tuning),
        is_gpu_(std::move(is_gpu)),
        device_(std::move(device)) {}

  MetaValues changed(const std::shared_ptr<const ConfigQuestion>& question) override;
  ConfigSource look_up(const ConfigQuestion& question);
  // Entry of an author's kernel. The library does not know whether its fields change results.
  struct AuthorEntry {
    std::string_view config;  // "num_warps=8"
    const TunedTable* table;
    std::string_view model;  // model of the device on which the entry was tuned
  };
  std::optional<AuthorEntry> author_entry(std::string_view kernel, std::string_view options) const;

 private:
  // Returns the reason why an entry with this configuration is not used, or "". Sets `values` to
  // the configuration's fields.
  std::string refusal(const ConfigQuestion& question, std::string_view config,
                      MetaValues* values) const;

  std::vector<std::shared_ptr<const TunedTable>> tables_;
  runtime::Tuning tuning_;
  std::function<bool()> is_gpu_;
  std::function<TunedDevice()> device_;
};

// Returns the tables of kernels/tuned, which are built into the library.
const std::vector<std::shared_ptr<const TunedTable>>& shipped_tables();

}  // namespace ligerdsl::lib
