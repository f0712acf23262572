#include "lib/cli/support/exit_codes.h"

namespace ligerdsl::cli {

const std::vector<std::pair<int, const char*>>& exit_codes() {
  static const std::vector<std::pair<int, const char*>> codes = {
      {kOk, "Success"},
      {kCheckFailed,
       "A check failed: a wrong result, a damaged cache entry, a failed case, or a case that got "
       "slower (bench --vs)"},
      {kUsage, "An argument, or a file that an argument names, is wrong"},
      {kNoDevice, "The device does not exist or cannot run the kernels"},
      {kNothingFound, "Nothing valid was found, or a result could not be written"},
      {kNotComparable,
       "bench --vs: the earlier run had another device, driver, number of threads or --warm"},
      {kInterrupted, "Interrupted by Ctrl-C (the code that a shell reports)"}};
  return codes;
}

}  // namespace ligerdsl::cli
