// main() of kernel tests:
// --backend=interpreter|interpreter-nvptx|cpu|cuda|ptx|ptx-cluster2|ptx-cluster4|ptx-sm80, cpu by
// default.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "tests/support/backend.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string name = "cpu";
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--backend=", 10) == 0) name = argv[i] + 10;
  }
  using namespace ligerdsl::test;
  BackendChoice choice = make_backend(name);
  if (!choice.backend) {
    std::printf("[SKIP] backend %s: %s\n", name.c_str(), choice.why.c_str());
    return name == "cuda" ? 77 : 1;  // 77 makes CTest skip: only a GPU may be missing
  }
  set_backend(std::move(choice.backend));
  return RUN_ALL_TESTS();
}
