// Amount of work of a fuzzer. The seeds are fixed unless the command line changes them.
#pragma once

namespace ligerdsl::test {

struct Budget {
  unsigned first_seed, count;
};

// Returns the range of seeds. `usual` is the number of seeds in CI; a build with sanitizers runs
// half of them.
Budget budget(unsigned usual);

}  // namespace ligerdsl::test
