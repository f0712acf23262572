#include "lib/cli/distortions.h"

#include <fmt/format.h>

#include "lib/cli/output.h"
#include "runtime/options.h"

namespace ligerdsl::cli {

namespace {

struct Distortion {
  const char* name;
  bool set;
  const char* not_for_tables;
  const char* effect;
};

std::vector<Distortion> known() {
  const runtime::Options& options = runtime::options();
  return {{"LIGERDSL_OVERRIDE_DIR", !options.override_dir.empty(), "tables are of what the compiler makes",
           "edited stages run in place of what the compiler makes"},
          {"LIGERDSL_VALIDATE", options.validate, "a call that is waited for and looked at takes another time",
           "each call is waited for and looked at, so it takes longer"},
          {"LIGERDSL_TRACE", !options.trace.empty(), "a call that is told takes another time",
           "each call is told, so it takes longer"}};
}

}  // namespace

std::vector<std::string> distortions() {
  std::vector<std::string> names;
  for (const Distortion& one : known())
    if (one.set) names.emplace_back(one.name);
  return names;
}

void refuse_distortions(const char* command) {
  for (const Distortion& one : known()) {
    if (one.set)
      throw Failure(kUsage, fmt::format("{}: {} is set; unset it, for {}", command, one.name, one.not_for_tables));
  }
}

void warn_of_distortions(const char* command) {
  for (const Distortion& one : known()) {
    if (one.set)
      print_error(fmt::format("{}: {} is set: {}; unset it for times to compare with", command, one.name, one.effect));
  }
}

}  // namespace ligerdsl::cli
