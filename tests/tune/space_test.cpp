#include "lib/tune/space.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ligerdsl::tune {
namespace {

// A space with width * height <= 32. The kind "deep" needs a depth above 0, and "flat" a depth of
// 0.
Space small(Bits most = Bits::row) {
  std::vector<MetaField> fields = {{"width", "int", "4", {"1", "2", "4", "8", "16"}, Bits::same},
                                   {"height", "int", "4", {"1", "2", "4", "8", "16"}, Bits::row},
                                   {"kind", "enum", "flat", {"flat", "deep"}, Bits::row},
                                   {"depth", "int", "0", {"0", "1", "2"}, Bits::row},
                                   {"parts", "int", "1", {"1", "2"}, Bits::batch},
                                   {"cols", "int", "77", {}, Bits::fixed}};
  return Space(
      fields,
      [](const MetaValues& v) -> std::string {
        if (v.count("cols")) return "cols is no choice";
        if (std::stoi(v.at("width")) * std::stoi(v.at("height")) > 32) return "too large";
        if ((v.at("kind") == "deep") != (v.at("depth") != "0")) return "depth";
        return "";
      },
      most);
}

TEST(Space, CountsAndNamesConfigurations) {
  const Space space = small();
  EXPECT_EQ(space.text(space.heuristic()), "width=4 height=4 kind=flat depth=0 parts=1");
  EXPECT_EQ(space.combinations(), 5 * 5 * 2 * 3);
  int count = 0, deep = 0;
  space.each([&](const Config& config) {
    EXPECT_TRUE(space.valid(config));
    ++count, deep += space.values(config).at("kind") == "deep";
    return true;
  });
  EXPECT_EQ(count, 19 * 3);  // 19 pairs of width and height: flat, or deep with two depths
  EXPECT_EQ(deep, 19 * 2);
}

TEST(Space, FieldsThatChangeMoreBitsAreFixed) {
  EXPECT_EQ(small(Bits::same).combinations(), 5);
  EXPECT_EQ(small(Bits::batch).combinations(), 5 * 5 * 2 * 3 * 2);
}

TEST(Space, AdjacentConfigurationsAreValidAndReachAnotherKind) {
  const Space space = small();
  const std::vector<Config> near = space.adjacent(space.heuristic());
  bool deep = false;
  for (const Config& config : near) {
    EXPECT_TRUE(space.valid(config));
    EXPECT_NE(config, space.heuristic());
    deep = deep || space.values(config).at("kind") == "deep";
  }
  EXPECT_TRUE(deep) << "kind and depth change together only";
  // From 4x4, a change of the height to 16 gives 4x16, which is invalid. 2x16 is the nearest valid
  // configuration.
  EXPECT_TRUE(std::any_of(near.begin(), near.end(), [&](const Config& config) {
    return space.text(config) == "width=2 height=16 kind=flat depth=0 parts=1";
  }));
}

TEST(Space, RandomConfigurationsAreValid) {
  const Space space = small();
  std::mt19937_64 generator(3);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(space.valid(space.random(generator)));
}

}  // namespace
}  // namespace ligerdsl::tune
