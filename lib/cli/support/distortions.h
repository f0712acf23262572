// Variables of the environment under which a kernel's time is not that of what the compiler makes, undisturbed.
#pragma once

#include <string>
#include <vector>

namespace ligerdsl::cli {

// The names of those that are set.
std::vector<std::string> distortions();

// Tables of tuned kernels outlive the environment that they were measured in. Throws Failure (kUsage) where one is set.
void refuse_distortions(const char* command);

// Says so on stderr, for times that are somebody's own business.
void warn_of_distortions(const char* command);

}  // namespace ligerdsl::cli
