// `ligerdsl check`: operations with default settings and small sizes, compared with their float64 references.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <map>
#include <string_view>

#include "lib/cli/kernels/run_op.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/environment.h"
#include "lib/instance/op_instance.h"
#include "lib/src/op_info.h"

namespace ligerdsl::cli {

namespace {

// Returns a small size for a letter of the tensors' shapes; 0: the default.
int64_t small_size(std::string_view operation, std::string_view letter) {
  const bool multiplies = operation.find("matmul") != std::string_view::npos;
  if (letter == "K") return multiplies ? 40 : 2;
  if (letter == "M") return multiplies ? 30 : 0;
  if (letter == "C") return operation.starts_with("group_norm") ? 12 : 0;
  static const std::map<std::string_view, int64_t> sizes = {{"N", 60}, {"H", 100}, {"F", 40}, {"V", 77},
                                                            {"B", 2},  {"S", 50},  {"A", 4},  {"D", 24},
                                                            {"P", 4},  {"T", 70},  {"E", 3}};
  const auto found = sizes.find(letter);
  return found == sizes.end() ? 0 : found->second;
}

std::vector<std::string> small_settings(const lib::OpInfo& info) {
  if (info.list_offset >= 0) return {"N=1000", "T=3"};
  std::vector<std::string> settings;
  for (const char* letter : info.symbols) {
    if (const int64_t size = small_size(info.name, letter); size > 0)
      settings.push_back(fmt::format("{}={}", letter, size));
  }
  return settings;
}

struct Checked {
  double worst = 0;  // of all outputs: largest difference over the largest value
  std::vector<std::string> faults;
};

Checked checked(const lib::ContextRef& context, const lib::OpInfo& info, const std::vector<std::string>& settings) {
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
    throw Failure(kUsage, request.all
                              ? "--all and names of operations exclude each other; give one of them"
                              : "nothing to check; name operations (`ligerdsl list` prints them) or give --all");
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
    for (const std::string& fault : outcome.faults) print_text(fmt::format("{}: {}\n", call, bad(globals, fault)));
    if (outcome.faults.empty() && globals.verbose)
      print_text(fmt::format("{}: {}, max error / max {:.2e}\n", call, good(globals, "right"), outcome.worst));
  }
  if (globals.json != "-")
    print_text(fmt::format("{} of {} right on {}\n", operations.size() - wrong,
                           counted(static_cast<int64_t>(operations.size()), "operation", "operations"),
                           globals.device));
  write_json(globals, result);
  return wrong == 0 ? kOk : kCheckFailed;
}

}  // namespace ligerdsl::cli
