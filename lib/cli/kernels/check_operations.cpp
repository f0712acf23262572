// `ligerdsl check`: operations with default settings and small sizes, compared with their float64
// references.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>

#include "lib/abi/op_info.h"
#include "lib/cli/kernels/run_op.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/environment.h"
#include "lib/instance/op_instance.h"

namespace ligerdsl::cli {

namespace {

std::vector<std::string> small_settings(const lib::OpInfo& info) {
  if (info.list_offset >= 0) return {"N=1000", "T=3"};
  std::vector<std::string> settings;
  const std::vector<int64_t>& sizes = defaults_of(info).small;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 0) settings.push_back(fmt::format("{}={}", info.symbols[i], sizes[i]));
  }
  return settings;
}

struct Checked {
  double worst = 0;  // largest difference / largest value, over all outputs
  std::vector<std::string> faults;
};

Checked checked(const lib::ContextRef& context, const lib::OpInfo& info,
                const std::vector<std::string>& settings) {
  Checked result;
  try {
    for (const RunOutput& output : run_op(context, info.name, settings, {}, true)) {
      result.worst = std::max(result.worst, output.difference.worst);
      if (const std::string fault = fault_of(output); !fault.empty())
        result.faults.push_back(fmt::format("{}: {}", output.name, fault));
    }
  } catch (const std::exception& error) {
    result.faults.push_back(fmt::format("NOT RUN: {}", error.what()));
  }
  return result;
}

}  // namespace

int check_operations(const Globals& globals, const CheckRequest& request) {
  if (request.all != request.operations.empty())
    throw Failure(kUsage, request.all ? "expected --all or names of operations, got both; omit one"
                                      : "nothing to check: expected names of operations (`ligerdsl "
                                        "list` prints them) or --all");
  std::vector<const lib::OpInfo*> operations;
  for (const std::string& name : request.operations) operations.push_back(&find_op(name));
  if (request.all) operations.assign(lib::op_table().begin(), lib::op_table().end());
  const lib::ContextRef context = open_context(globals);
  size_t wrong = 0;
  Json result = Json::array();
  for (const lib::OpInfo* info : operations) {
    const std::vector<std::string> settings = small_settings(*info);
    const Checked outcome = checked(context, *info, settings);
    wrong += outcome.faults.empty() ? 0 : 1;
    result.push_back({{"operation", info->name},
                      {"settings", settings},
                      {"max_error_of_scale", outcome.worst},
                      {"faults", outcome.faults}});
    if (globals.json == "-") continue;
    const std::string call = fmt::format("{} {}", info->name, fmt::join(settings, " "));
    for (const std::string& fault : outcome.faults)
      print_text(fmt::format("{}: {}\n", call, bad(globals, fault)));
    if (outcome.faults.empty() && globals.verbose)
      print_text(fmt::format("{}: {}, max error / max {:.2e}\n", call, good(globals, "right"),
                             outcome.worst));
  }
  if (globals.json != "-")
    print_text(
        fmt::format("{} of {} right on {}\n", operations.size() - wrong,
                    counted(static_cast<int64_t>(operations.size()), "operation", "operations"),
                    globals.device));
  write_json(globals, result);
  return wrong == 0 ? kOk : kCheckFailed;
}

}  // namespace ligerdsl::cli
