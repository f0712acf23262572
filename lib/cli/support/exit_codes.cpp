#include "lib/cli/support/exit_codes.h"

namespace ligerdsl::cli {

const std::vector<std::pair<int, const char*>>& exit_codes() {
  static const std::vector<std::pair<int, const char*>> codes = {
      {kOk, "Success"},
      {kCheckFailed,
       "A check failed: a wrong result, a damaged file, with bench --vs a case that got slower"},
      {kUsage, "The arguments or a file that they name are wrong"},
      {kNoDevice, "There is no such device"},
      {kNothingFound, "Nothing valid was found, or a result could not be written"},
      {kNotComparable,
       "bench --vs: the earlier run was on another device, driver or number of threads"},
      {kInterrupted, "Interrupted, as a shell sees it"}};
  return codes;
}

}  // namespace ligerdsl::cli
