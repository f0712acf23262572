// The number of random cases that a fuzzer tries. Their seeds are fixed unless the command line
// changes them.
#pragma once

namespace ligerdsl::test {

struct Budget {
  unsigned first_seed, count;
};

// Returns the seeds to try. `usual` is their number in CI; a build with sanitizers tries a quarter
// of it unless nightly tests are on.
Budget budget(unsigned usual);

}  // namespace ligerdsl::test
