// Random calls of the DSL must give a program, or an error with the caller's line. The program must
// pass the verifier, and its bytes must decode to the same program.
#include "builder_fuzz.h"

#include <gtest/gtest.h>

#include "fuzz_budget.h"
#include "program/print.h"
#include "program/serialize.h"
#include "program/verify.h"

namespace ligerdsl::test {
namespace {

TEST(BuilderFuzz, RecordsOrNamesTheLine) {
  const Budget budget = test::budget(3000);
  int64_t accepted = 0, refused = 0;
  for (unsigned seed = budget.first_seed; seed < budget.first_seed + budget.count; ++seed) {
    SCOPED_TRACE("--seed=" + std::to_string(seed) + " --count=1");
    BuilderFuzz fuzz(seed);
    program::Program program;
    ASSERT_NO_THROW(program = fuzz.record(40));
    accepted += fuzz.accepted();
    refused += fuzz.refused();
    ASSERT_NO_THROW(program::verify(program)) << program::print(program);
    const std::string bytes = program::serialize(program);
    ASSERT_EQ(program::serialize(program::parseProgram(bytes)), bytes) << program::print(program);
  }
  // The random calls must include many accepted and many refused ones.
  EXPECT_GT(accepted, int64_t{budget.count} * 15);
  EXPECT_GT(refused, int64_t{budget.count} * 3);
}

TEST(BuilderFuzz, SeedDeterminesProgram) {
  EXPECT_EQ(program::serialize(BuilderFuzz(7).record(60)),
            program::serialize(BuilderFuzz(7).record(60)));
}

}  // namespace
}  // namespace ligerdsl::test
