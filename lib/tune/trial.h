// A configuration that was tried, and what came of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/tune/strict_json.h"

namespace ligerdsl::tune {

enum class Fate : uint8_t {
  ok,
  slow,     // it was right as far as it was checked, and lost before it was measured to the end
  compile,  // the compiler or the driver refused it
  wrong,    // an output is not what the float64 reference says
  guard,    // it wrote outside of its outputs
  timeout,  // it did not end
  crash,    // the process that ran it ended
};
const char* name(Fate fate);
Fate fate_named(const std::string& name);  // throws JsonError

struct Trial {
  std::string key;        // of everything that the result depends on
  std::string operation;  // what was run: "adamw_step"
  std::string kernel;     // whose configuration this is: "adamw"
  int version = 1;        // of its configuration
  std::string options;    // "cols=4096 type=bf16 ..."
  std::string config;     // "keep=registers num_warps=8 ..."
  bool heuristic = false;
  Json device;                        // arch, units, model, driver
  std::string build;                  // of the library
  std::vector<std::string> problems;  // settings that it was measured with
  Fate fate = Fate::ok;
  std::string reason;                // why it was not ok, for people
  std::vector<double> us;            // medians, by problem
  std::vector<double> heuristic_us;  // of the heuristic, in turns with these
  double ratio = 0;                  // geometric mean of us over heuristic_us
  int samples = 0;                   // of each of the last measurement
  Json seconds;                      // what its parts took: compile, assemble, load, check, measure
  Json resources;                    // registers, shared memory, spills, CTAs of an SM
  std::string date;
  double elapsed = 0;  // seconds of this run's search of the task, when the trial ended; 0: not noted
  Json ceiling;        // measured beside: copy_gb_per_s of a large copy; by problem bytes, copy_us of a copy of as many
  std::string loaded;  // digest of the files of --load

  Json to_json() const;
  // Throws JsonError where a member is missing, or is not what is written here.
  static Trial from_json(const Json& json);
};

}  // namespace ligerdsl::tune
