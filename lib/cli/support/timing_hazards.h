// Timing hazards: environment variables under which measured times are not those of the compiled
// kernel.
#pragma once

#include <string>
#include <vector>

namespace ligerdsl::cli {

// Returns the names of the hazards that are set.
std::vector<std::string> timing_hazards();

// Throws Failure (kUsage) if a hazard is set, because tables of tuned kernels outlive the
// environment in which they were measured.
void refuse_timing_hazards(const char* command);

// Prints a warning on stderr if a hazard is set. Call it in commands that print times and do not
// store them in tables.
void warn_of_timing_hazards(const char* command);

}  // namespace ligerdsl::cli
