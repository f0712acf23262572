// `ligerdsl report` writes an HTML page about the trials in stores. It needs no device.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "lib/cli/report/report_page.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/deferred_signals.h"
#include "lib/cli/support/gnuplot.h"
#include "lib/text/nearest.h"
#include "lib/tune/store.h"

namespace ligerdsl::cli {

namespace {

// Returns the trials of the given kernels. Throws Failure (kNothingFound) for a kernel without
// trials.
std::vector<tune::Trial> chosen(std::vector<tune::Trial> trials,
                                const std::vector<std::string>& kernels) {
  if (kernels.empty()) return trials;
  std::vector<std::string> names;
  for (const tune::Trial& trial : trials) names.push_back(trial.operation);
  for (const std::string& kernel : kernels) {
    if (std::find(names.begin(), names.end(), kernel) == names.end())
      throw Failure(kNothingFound, fmt::format("report: the stores have no trial of {}{}", kernel,
                                               did_you_mean(kernel, names)));
  }
  std::erase_if(trials, [&](const tune::Trial& trial) {
    return std::find(kernels.begin(), kernels.end(), trial.operation) == kernels.end();
  });
  return trials;
}

Json json_of(const tune::TaskSummary& task) {
  Json failures = Json::object();
  for (const tune::FateCount& failure : task.failures) {
    Json& count = failures[name(failure.fate)];
    count = count.is_null() ? failure.count : count.get<int64_t>() + failure.count;
  }
  return {{"operation", task.about.operation},
          {"options", task.about.options},
          {"problems", task.about.problems},
          {"device", task.about.device},
          {"build", task.about.build},
          {"tried", task.candidates.size()},
          {"failures", failures},
          {"winner", task.winner.config.empty() ? Json() : task.winner.to_json()},
          {"heuristic", task.heuristic.config.empty() ? Json() : Json(task.heuristic.config)},
          {"confirmed", task.confirmed},
          {"gained", task.gained}};
}

}  // namespace

int report(const Globals& globals, const ReportRequest& request) {
  require_gnuplot("report");
  std::vector<std::string> stores = request.stores;
  std::error_code error;
  if (stores.empty()) {
    stores.push_back(default_store());
    if (!std::filesystem::exists(stores.front(), error))
      throw Failure(
          kNothingFound,
          fmt::format(
              "report: \"{}\" does not exist; run `ligerdsl tune` to create it, or name a store",
              stores.front()));
  }
  for (const std::string& store : stores) {
    for (const std::string& written : {request.output, globals.json}) {
      if (is_same_file(written, store))
        throw Failure(kUsage, fmt::format("report: {} is a store of trials and would be "
                                          "overwritten; name another file to write",
                                          written));
    }
  }
  std::vector<tune::Trial> trials;
  for (const std::string& store : stores) {
    for (tune::Trial& trial : tune::read_trials(store)) trials.push_back(std::move(trial));
  }
  if (trials.empty())
    throw Failure(kNothingFound,
                  fmt::format("report: no trial in {}; run `ligerdsl tune` to add trials",
                              fmt::join(stores, ", ")));
  const std::vector<tune::TaskSummary> tasks =
      tune::summarize(chosen(std::move(trials), request.kernels));
  const DeferredSignals signals;
  write_file(request.output, report_page(tasks, signals.descriptor()));
  Json summary = Json::array();
  for (const tune::TaskSummary& task : tasks) summary.push_back(json_of(task));
  write_json(globals, {{"report", request.output}, {"tasks", summary}});
  return kOk;
}

}  // namespace ligerdsl::cli
