// How much a fuzzer does: the same seeds every time, unless the command line says otherwise.
#pragma once

namespace ligerdsl::test {

struct Budget {
  unsigned first_seed, count;
};

// `usual`: the number of seeds in CI.
Budget budget(unsigned usual);

}  // namespace ligerdsl::test
