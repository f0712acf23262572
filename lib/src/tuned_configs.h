// The configurations of a context's kernels out of tables of tuned kernels: the user's first, then the one that ships.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/src/kernel_configs.h"
#include "lib/src/tuned_table.h"
#include "runtime/environment/options.h"

namespace ligerdsl::lib {

// Where a configuration came from, for `ligerdsl explain`.
struct ConfigSource {
  MetaValues values;                  // other than the heuristic's
  const TunedTable* table = nullptr;  // null: the heuristic
  std::string model;                  // that the entry was tuned on
  std::vector<std::string> passed;    // sentences: entries that were not taken, and why
};

// The line of the log.
std::string taken_text(std::string_view call, const TunedTable& table, std::string_view model);

class TunedConfigs final : public KernelConfigs {
 public:
  // The tables are looked up in their order.
  // `device` is asked where a table has something for a device of its kind only: to know a CPU takes the compiler.
  TunedConfigs(std::vector<std::shared_ptr<const TunedTable>> tables, runtime::Tuning tuning,
               std::function<bool()> is_gpu, std::function<TunedDevice()> device)
      : tables_(std::move(tables)), tuning_(tuning), is_gpu_(std::move(is_gpu)), device_(std::move(device)) {}

  MetaValues changed(const std::shared_ptr<const ConfigQuestion>& question) override;
  ConfigSource look_up(const ConfigQuestion& question);
  // Of a kernel that is not the library's. What its fields change in results is not known here.
  struct AuthorEntry {
    std::string_view config;  // "num_warps=8"
    const TunedTable* table;
    std::string_view model;  // that it was tuned on
  };
  std::optional<AuthorEntry> author_entry(std::string_view kernel, std::string_view options) const;

 private:
  // Why an entry of this configuration is not taken; empty: it is, and `values` are those of its fields.
  std::string refusal(const ConfigQuestion& question, std::string_view config, MetaValues* values) const;

  std::vector<std::shared_ptr<const TunedTable>> tables_;
  runtime::Tuning tuning_;
  std::function<bool()> is_gpu_;
  std::function<TunedDevice()> device_;
};

// The tables of kernels/tuned, which are built into the library.
const std::vector<std::shared_ptr<const TunedTable>>& shipped_tables();

}  // namespace ligerdsl::lib
