// Result of one tried configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/tune/strict_json.h"

namespace ligerdsl::tune {

enum class Fate : uint8_t {
  ok,
  slow,     // the checks passed, but the first samples were much slower than the heuristic's
  compile,  // the compiler or the driver rejected it
  wrong,    // an output differs from the float64 reference
  guard,    // the kernel wrote outside its outputs
  timeout,  // the trial did not end in time
  crash,    // the process that ran the configuration ended
};
const char* name(Fate fate);
Fate fate_named(const std::string& name);  // throws JsonError

struct Trial {
  std::string key;        // digest of everything that the result depends on
  std::string operation;  // executed operation: "adamw_step"
  std::string kernel;     // kernel with this configuration: "adamw"
  int version = 1;        // version of the kernel's fields; changes with their meaning
  std::string options;    // "cols=4096 type=bf16 ..."
  std::string config;     // "keep=registers num_warps=8 ..."
  bool heuristic = false;
  Json device;                        // arch, units, model, driver
  std::string build;                  // build id of the library
  std::vector<std::string> problems;  // settings of the measured problems
  Fate fate = Fate::ok;
  std::string reason;                // reason of a fate other than ok
  std::vector<double> us;            // median time of each problem
  std::vector<double> heuristic_us;  // median times of the heuristic, measured alternately
  double ratio = 0;                  // geometric mean of us / heuristic_us
  int samples = 0;                   // samples per problem in the last measurement
  Json seconds;                      // seconds per part: compile, assemble, load, check, measure
  Json resources;                    // registers, shared memory, spills, CTAs per SM
  std::string date;
  double elapsed = 0;  // seconds from the search's start to this trial's end, or 0 if not recorded
  Json ceiling;  // copy_gb_per_s of a large copy; bytes and copy_us of a copy of the problem's size
  std::string loaded;  // digest of the files of --load

  Json to_json() const;
  // Throws JsonError if a member is missing or has another type than in to_json().
  static Trial from_json(const Json& json);
};

}  // namespace ligerdsl::tune
