// Tests that every output of the model's operations has a comparison.
#include "check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace train {
namespace {

using namespace std::string_literals;

TEST(Check, UncheckedOutputFails) {
  const Ops::Operation operations[] = {{"norm", "y rstd"}, {"add", "out"}, {"rope", "q k"}};
  const std::vector<Comparison> made = {
      {"norm", "y", ""}, {"rope", "k q", ""}, {"other", "out", ""}};
  std::vector<Comparison> missing = missing_checks(operations, made);
  ASSERT_EQ(missing.size(), 2u);
  EXPECT_EQ(std::pair(missing[0].name, missing[0].output), std::pair("norm"s, "rstd"s));
  EXPECT_EQ(std::pair(missing[1].name, missing[1].output), std::pair("add"s, "out"s));
  for (const Comparison& c : missing) {
    EXPECT_FALSE(c.passed());
    EXPECT_EQ(c.gate, "has no check");
  }
}

TEST(Check, OperationsMatchTheLibrary) {
  std::vector<std::string> names;
  for (const Ops::Operation& operation : Ops::operations()) names.push_back(operation.name);
  for (const char* name :
       {"layer_norm_forward", "geglu_backward", "fused_linear_cross_entropy", "target_counts"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
}

TEST(Check, GatesRejectWrongValues) {
  const Gate exact{0, 0}, elementwise{1e-3, 0}, norm{1e-3, 0, true};
  auto passed = [](double got, double expected, Gate gate) {
    return compare("", "", "", {got, 2}, {expected, 2}, gate).passed();
  };
  EXPECT_TRUE(passed(1, 1, exact));
  EXPECT_FALSE(passed(1 + 1e-15, 1, exact));
  for (Gate gate : {elementwise, norm}) {
    EXPECT_TRUE(passed(1.0005, 1, gate));
    EXPECT_FALSE(passed(1.003, 1, gate));
    EXPECT_FALSE(passed(std::numeric_limits<double>::quiet_NaN(), 1, gate));
    EXPECT_FALSE(passed(1, std::numeric_limits<double>::quiet_NaN(), gate));
  }
}

}  // namespace
}  // namespace train
