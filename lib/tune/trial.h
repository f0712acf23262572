// Result of one configuration that was tried.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/tune/strict_json.h"

namespace ligerdsl::tune {

enum class Fate : uint8_t {
  ok,
  slow,     // the checks passed, but it was much slower in the first samples
  compile,  // the compiler or the driver rejected it
  wrong,    // an output differs from the float64 reference
  guard,    // it wrote outside of its outputs
  timeout,  // it did not end in time
  crash,    // the process that ran it ended
};
const char* name(Fate fate);
Fate fate_named(const std::string& name);  // throws JsonError

struct Trial {
  std::string key;        // digest of everything that the result depends on
  std::string operation;  // operation that was run: "adamw_step"
  std::string kernel;     // kernel that has this configuration: "adamw"
  int version = 1;        // changes with the meaning of its fields
  std::string options;    // "cols=4096 type=bf16 ..."
  std::string config;     // "keep=registers num_warps=8 ..."
  bool heuristic = false;
  Json device;                        // arch, units, model, driver
  std::string build;                  // build id of the library
  std::vector<std::string> problems;  // settings of the problems that were measured
  Fate fate = Fate::ok;
  std::string reason;                // why it was not ok
  std::vector<double> us;            // medians, by problem
  std::vector<double> heuristic_us;  // medians of the heuristic, measured alternately with `us`
  double ratio = 0;                  // geometric mean of us over heuristic_us
  int samples = 0;                   // per problem in the last measurement
  Json seconds;                      // by part: compile, assemble, load, check, measure
  Json resources;                    // registers, shared memory, spills, CTAs per SM
  std::string date;
  double elapsed = 0;  // seconds from the search's begin to this trial's end; 0: not recorded
  Json ceiling;  // copies: copy_gb_per_s of a large one; bytes and copy_us of one of the problem's
                 // size
  std::string loaded;  // digest of the files of --load

  Json to_json() const;
  // Throws JsonError if a member is missing or is not what to_json() writes.
  static Trial from_json(const Json& json);
};

}  // namespace ligerdsl::tune
