// main() of these tests. Options: --device=cpu|cuda (default cpu) and --rows=N.
#include <gtest/gtest.h>

#include "tests/every_op/session.h"

int main(int argc, char** argv) {
  if (const int code = ligerdsl::test::start_session(argc, argv)) return code;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
