// main() of the fuzzers: --seed=N sets the first seed, --count=N the number of seeds. All other
// arguments are for GoogleTest.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "fuzz_budget.h"

namespace ligerdsl::test {

namespace {
unsigned seed = 1, count = 0;
}

Budget budget(unsigned usual) {
#ifdef LIGERDSL_FEW_SEEDS
  usual /= 4;
#endif
  return {seed, count ? count : usual};
}

}  // namespace ligerdsl::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--seed=", 7) == 0) {
      ligerdsl::test::seed = static_cast<unsigned>(std::atol(argv[i] + 7));
    } else if (std::strncmp(argv[i], "--count=", 8) == 0) {
      ligerdsl::test::count = static_cast<unsigned>(std::atol(argv[i] + 8));
    } else {
      std::fprintf(stderr,
                   "unknown argument %s: expected --seed=N, --count=N or an option of GoogleTest\n",
                   argv[i]);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
