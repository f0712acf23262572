#include "runtime/environment/cpu_level.h"

#include <gtest/gtest.h>

#include "runtime/system/status.h"

namespace ligerdsl::runtime {
namespace {

const std::string kNehalem =
    "-avx,-avx2,+cx16,+cx8,-fma,+popcnt,+sse3,+sse4.1,+sse4.2,-sse4a,+ssse3";
const std::string kHaswell =
    "+avx,+avx2,-avx512f,+bmi,+bmi2,+cx16,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse3,+sse4.1,+sse4.2,+"
    "ssse3";

std::string missing(std::string_view level, const std::string& features) {
  try {
    require_cpu_level(level, features);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::not_supported);
    return error.what();
  }
}

TEST(CpuLevel, SupportedLevelsMissNothing) {
  EXPECT_EQ(missing("x86-64", ""), "");
  EXPECT_EQ(missing("x86-64-v2", kNehalem), "");
  EXPECT_EQ(missing("x86-64-v3", kHaswell), "");
  EXPECT_EQ(missing("x86-64-v2", kHaswell), "");
}

TEST(CpuLevel, ErrorNamesTheMissingFeature) {
  for (const auto& [level, features, feature] :
       {std::tuple("x86-64-v2", std::string(), "cx16"), std::tuple("x86-64-v3", kNehalem, "avx"),
        std::tuple("x86-64-v4", kNehalem, "avx"), std::tuple("x86-64-v4", kHaswell, "avx512f"),
        std::tuple("x86-64-v4", kHaswell + ",+avx512f,+avx512bw,+avx512cd,+avx512dq",
                   "avx512vl")}) {
    const std::string text = missing(level, features);
    EXPECT_NE(text.find(std::string("level ") + level + " needs " + feature + ","),
              std::string::npos)
        << text;
  }
}

TEST(CpuLevel, NamesAreInOrder) {
  for (size_t i = 1; i < cpu_levels().size(); ++i) EXPECT_LT(cpu_levels()[i - 1], cpu_levels()[i]);
}

}  // namespace
}  // namespace ligerdsl::runtime
