#include "lib/tune/strategy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace ligerdsl::tune {
namespace {

// Four fields with eight choices each. The time grows with the distance from its minimum at (6, 1,
// 5, 2). Configurations with a + b > 12 are invalid.
Space bowl_space() {
  std::vector<MetaField> fields;
  for (const char* name : {"a", "b", "c", "d"}) {
    fields.push_back({name, "int", "3", {"0", "1", "2", "3", "4", "5", "6", "7"}, Bits::row});
  }
  return Space(
      fields,
      [](const MetaValues& v) {
        return std::stoi(v.at("a")) + std::stoi(v.at("b")) > 12 ? "too much" : "";
      },
      Bits::row);
}

double bowl(const Space& space, const Config& config) {
  const MetaValues v = space.values(config);
  const auto off = [&](const char* name, double at) {
    return std::fabs(std::stod(v.at(name)) - at);
  };
  return 0.5 + 0.05 * (off("a", 6) + off("b", 1) + off("c", 5) + off("d", 2));
}

// Returns the number of evaluations that the strategy needs to reach the minimum.
int64_t evaluations(const std::string& name, uint64_t seed) {
  const Space space = bowl_space();
  const auto strategy = make_strategy(name, space, seed, [](const Config&) { return 1.0; });
  const double start = bowl(space, space.heuristic());
  for (int64_t count = 1;; ++count) {
    const std::vector<Config> next = strategy->next(1);
    if (next.empty()) return -1;
    const double time = bowl(space, next[0]);
    if (time == 0.5) return count;
    strategy->learn(next[0], time / start);
  }
}

TEST(Strategy, ExhaustiveProposesEachConfigurationOnce) {
  const Space space = bowl_space();
  const auto strategy = make_strategy("exhaustive", space, 0, {});
  std::set<Config> said;
  for (std::vector<Config> next; !(next = strategy->next(7)).empty();) {
    for (const Config& config : next) EXPECT_TRUE(said.insert(config).second);
  }
  EXPECT_EQ(std::ssize(said), (64 - 3) * 64 - 1)
      << "all valid configurations except the heuristic's";
}

TEST(Strategy, NeverProposesAConfigurationTwice) {
  const Space space = bowl_space();
  for (const std::string& name : strategy_names()) {
    const auto strategy = make_strategy(name, space, 5, [](const Config&) { return 1.0; });
    std::set<Config> said = {space.heuristic()};
    for (int i = 0; i < 100; ++i) {
      for (const Config& config : strategy->next(3)) {
        EXPECT_TRUE(said.insert(config).second) << name;
        strategy->learn(config, bowl(space, config));
      }
    }
  }
}

TEST(Strategy, EqualSeedsGiveEqualOrder) {
  const Space space = bowl_space();
  const auto first_configs = [&](const std::string& name) {
    const auto strategy = make_strategy(name, space, 11, [](const Config&) { return 1.0; });
    std::vector<Config> configs;
    for (int i = 0; i < 100; ++i)
      for (const Config& config : strategy->next(1)) {
        strategy->learn(config, bowl(space, config));
        configs.push_back(config);
      }
    return configs;
  };
  for (const std::string& name : strategy_names()) {
    EXPECT_EQ(first_configs(name).size(), 100u) << name;
    EXPECT_EQ(first_configs(name), first_configs(name)) << name;
  }
}

TEST(Strategy, GuidedFindsMinimumInAQuarterOfTheSpace) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const int64_t count = evaluations("guided", seed);
    EXPECT_GT(count, 0);
    EXPECT_LT(count, (64 - 3) * 64 / 4) << seed;
  }
}

TEST(Strategy, GuidedStartsWithBestPrediction) {
  const Space space = bowl_space();
  const auto strategy = make_strategy("guided", space, 0, [&](const Config& config) {
    return space.values(config).at("d") == "7" ? 0.5 : 1.0;
  });
  EXPECT_EQ(space.text(strategy->next(1)[0]), "a=3 b=3 c=3 d=7");
}

}  // namespace
}  // namespace ligerdsl::tune
