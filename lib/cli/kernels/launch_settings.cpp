#include "lib/cli/kernels/launch_settings.h"

#include <fmt/format.h>

#include "lib/text/numbers.h"
#include "lib/text/output.h"
#include "program/gpu_arch.h"

namespace ligerdsl::cli {

namespace {

struct Row {
  std::optional<int> LaunchSettings::*member;
  int low, high;
  bool power_of_two;
  bool or_zero = false;
};

// Values in the order of launch_setting_names().
const std::vector<Row> kRows = {
    {&LaunchSettings::num_warps, 1, program::kMaxWarps, true},
    {&LaunchSettings::num_ctas, 1, program::kMaxCluster, true},
    {&LaunchSettings::num_stages, 1, program::kMaxStages, false},
    {&LaunchSettings::max_registers, program::kMinRegisters, program::kMaxRegisters, false, true},
    {&LaunchSettings::min_ctas_per_sm, 0, program::kMaxCtasPerSm, false},
    {&LaunchSettings::no_alias, 0, 1, false}};

}  // namespace

void LaunchSettings::apply(Launch* launch) const {
  if (num_warps) launch->num_warps = *num_warps;
  if (num_ctas) launch->num_ctas = *num_ctas;
  if (num_stages) launch->num_stages = *num_stages;
  if (max_registers) launch->max_registers = *max_registers;
  if (min_ctas_per_sm) launch->min_ctas_per_sm = *min_ctas_per_sm;
  if (no_alias) launch->no_alias = *no_alias != 0;
}

LaunchSettings take_launch_settings(std::map<std::string, std::string>* settings) {
  LaunchSettings taken;
  for (size_t i = 0; i < kRows.size(); ++i) {
    const std::string& name = launch_setting_names()[i];
    const auto found = settings->find(name);
    if (found == settings->end()) continue;
    const auto value = static_cast<int>(parse_integer(name, found->second, kRows[i].low,
                                                      kRows[i].high, /*or_zero=*/kRows[i].or_zero));
    if (kRows[i].power_of_two && (value & (value - 1)) != 0)
      throw Failure(kUsage, fmt::format("{}: expected a power of two from {} to {}, got {}", name,
                                        kRows[i].low, kRows[i].high, value));
    taken.*kRows[i].member = value;
    settings->erase(found);
  }
  return taken;
}

}  // namespace ligerdsl::cli
