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
           "edited files replace stages of the compiler",
           "edited files replace stages of the compiler"},
          {"LIGERDSL_VALIDATE", options.validate,
           "the library waits for every call and checks its results",
           "the library waits for every call and checks its results"},
          {"LIGERDSL_TRACE", !options.trace.empty(), "the library records every call",
           "the library records every call"}};
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
      throw Failure(
          kUsage,
          fmt::format("{}: {} is set: {}, so times would not be those of normal runs; unset it",
                      command, one.name, one.not_for_tables));
  }
}

void warn_of_timing_hazards(const char* command) {
  for (const TimingHazard& one : known()) {
    if (one.set)
      print_error(fmt::format("{}: {} is set: {}; unset it to get comparable times", command,
                              one.name, one.effect));
  }
}

}  // namespace ligerdsl::cli
