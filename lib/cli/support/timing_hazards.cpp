#include "lib/cli/support/timing_hazards.h"

#include <fmt/format.h>

#include "lib/text/output.h"
#include "runtime/environment/options.h"

namespace ligerdsl::cli {

namespace {

struct TimingHazard {
  const char* name;
  bool set;
  const char* not_for_tables;
  const char* effect;
};

std::vector<TimingHazard> known() {
  const runtime::Options& options = runtime::options();
  return {{"LIGERDSL_OVERRIDE_DIR", !options.override_dir.empty(),
           "it runs edited stages in place of what the compiler makes",
           "it runs edited stages in place of what the compiler makes"},
          {"LIGERDSL_VALIDATE", options.validate,
           "it waits for every call and checks its results, which takes time",
           "it waits for every call and checks its results, which takes time"},
          {"LIGERDSL_TRACE", !options.trace.empty(), "it records every call, which takes time",
           "it records every call, which takes time"}};
}

}  // namespace

std::vector<std::string> timing_hazards() {
  std::vector<std::string> names;
  for (const TimingHazard& one : known())
    if (one.set) names.emplace_back(one.name);
  return names;
}

void refuse_timing_hazards(const char* command) {
  for (const TimingHazard& one : known()) {
    if (one.set)
      throw Failure(kUsage,
                    fmt::format("{}: unset {}: {}, so that the times are not those of normal runs",
                                command, one.name, one.not_for_tables));
  }
}

void warn_of_timing_hazards(const char* command) {
  for (const TimingHazard& one : known()) {
    if (one.set)
      print_error(fmt::format("{}: {} is set, and {}; unset it to get comparable times", command,
                              one.name, one.effect));
  }
}

}  // namespace ligerdsl::cli
