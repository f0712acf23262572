#include "lib/tune/summary.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ligerdsl::tune {
namespace {

Trial trial(const std::string& config, Fate fate, double ratio, int samples = 5,
            double elapsed = 0) {
  Trial one;
  one.operation = one.kernel = "k";
  one.options = "cols=64";
  one.config = config;
  one.device = {{"arch", "cpu"}, {"units", 2}, {"model", "m"}};
  one.problems = {"N=4"};
  one.fate = fate;
  one.ratio = ratio;
  one.samples = samples;
  one.elapsed = elapsed;
  return one;
}

Trial heuristic(double ratio) {
  Trial one = trial("w=4", Fate::ok, ratio, 45);
  one.heuristic = true;
  return one;
}

Trial because(Trial one, const std::string& reason) {
  one.reason = reason;
  return one;
}

Trial over_problems(std::vector<double> ratios) {
  Trial one = trial("w=1", Fate::ok, 1, 45);
  one.problems.clear();
  double product = 1;
  for (const double ratio : ratios) {
    one.problems.push_back("N=" + std::to_string(one.problems.size()));
    one.heuristic_us.push_back(10);
    one.us.push_back(10 * ratio);
    product *= ratio;
  }
  one.ratio = std::pow(product, 1 / static_cast<double>(ratios.size()));
  return one;
}

TEST(SummaryTest, GainMustExceedTheNoise) {
  const auto gains = [](double ratio, double noise) {
    return no_gain(over_problems({ratio}), noise).empty();
  };
  EXPECT_TRUE(gains(0.994, 1));
  EXPECT_FALSE(gains(0.996, 1));
  EXPECT_FALSE(gains(0.95, 1.02));
  EXPECT_FALSE(gains(0.95, 0.98));
  EXPECT_TRUE(gains(0.93, 0.98));
  EXPECT_TRUE(gains(0.1, 0.6));
  EXPECT_TRUE(gains(0.1, 1 / 0.6));
  EXPECT_FALSE(gains(0.3, 0.6));
  EXPECT_FALSE(gains(0.3, 1 / 0.6));
  EXPECT_FALSE(gains(0.1, 0));  // not measured
  EXPECT_FALSE(gains(NAN, 1));
}

TEST(SummaryTest, GainRequiresNoSlowerProblem) {
  EXPECT_EQ(no_gain(over_problems({0.8, 1.009}), 1), "");
  EXPECT_EQ(no_gain(over_problems({0.5, 1.02, 0.9}), 1),
            "its time is 0.771 of the heuristic's over all problems, but 1.020 of it on \"N=1\"");
  EXPECT_EQ(worst_ratio(over_problems({0.5, 1.02, 0.9})), 1.02);
  EXPECT_EQ(cost(over_problems({0.5, 1.02}), 1.03), over_problems({0.5, 1.02}).ratio);
  EXPECT_EQ(cost(over_problems({0.5, 1.02}), 1.01), 1.02);
}

TEST(SummaryTest, ConfigurationSlowerOnOneProblemDoesNotWin) {
  Trial uneven = over_problems({0.5, 1.1}), even = over_problems({0.9, 0.95});
  uneven.config = "w=2";
  std::vector<Trial> trials = {uneven, even, heuristic(1)};
  for (Trial& one : trials) one.problems = {"N=0", "N=1"};
  const auto tasks = summarize(trials);
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(tasks[0].winner.config, "w=1");
  EXPECT_TRUE(tasks[0].gained);
  const auto alone = summarize({trials[0], trials[2]});
  EXPECT_FALSE(alone[0].gained);
  EXPECT_TRUE(alone[0].winner.heuristic);
}

TEST(SummaryTest, DistributionComputesQuantiles) {
  const Distribution d = distribution({5, 1, 2, 4, 3});
  EXPECT_EQ(d.count, 5u);
  EXPECT_EQ(d.least, 1);
  EXPECT_EQ(d.q25, 2);
  EXPECT_EQ(d.median, 3);
  EXPECT_EQ(d.q75, 4);
  EXPECT_DOUBLE_EQ(d.q90, 4.6);
  EXPECT_EQ(distribution({7}).q90, 7);
  EXPECT_EQ(distribution({}).count, 0u);
}

TEST(SummaryTest, WinnerIsChosenFromTheFinals) {
  std::vector<Trial> trials = {trial("w=1", Fate::ok, 0.7), trial("w=2", Fate::ok, 0.8),
                               trial("w=8", Fate::ok, 0.75)};
  const auto searched = summarize(trials);
  ASSERT_EQ(searched.size(), 1u);
  EXPECT_EQ(searched[0].winner.config, "w=1");
  EXPECT_FALSE(searched[0].confirmed || searched[0].gained);
  trials.push_back(heuristic(1));
  trials.push_back(trial("w=1", Fate::ok, 0.97, 45));  // the ratio 0.7 was luck
  trials.push_back(trial("w=2", Fate::ok, 0.82, 45));
  const auto done = summarize(trials);
  EXPECT_EQ(done[0].winner.config, "w=2");
  EXPECT_EQ(done[0].winner.ratio, 0.82);
  EXPECT_TRUE(done[0].confirmed && done[0].gained);
  EXPECT_EQ(done[0].candidates.size(), 3u);
  trials.push_back(heuristic(1.1));
  const auto noisy = summarize(trials);
  EXPECT_EQ(noisy[0].winner.config, "w=4");
  EXPECT_TRUE(noisy[0].confirmed);
  EXPECT_FALSE(noisy[0].gained);
}

TEST(SummaryTest, HeuristicWinsIfNoTrialIsCorrect) {
  const auto none = summarize({trial("w=1", Fate::crash, 0)});
  EXPECT_EQ(none[0].winner.config, "");
  const auto left = summarize({trial("w=1", Fate::crash, 0), heuristic(1)});
  EXPECT_EQ(left[0].winner.config, "w=4");
  EXPECT_TRUE(left[0].confirmed);
}

TEST(SummaryTest, BestSoFarContinuesAcrossRuns) {
  const auto tasks =
      summarize({trial("w=1", Fate::ok, 1.2, 5, 1), trial("w=2", Fate::ok, 0.9, 5, 4),
                 trial("w=8", Fate::wrong, 0.1, 5, 0.5), trial("w=16", Fate::ok, 0.8, 5, 2)});
  ASSERT_EQ(tasks[0].candidates.size(), 4u);
  const auto& tried = tasks[0].candidates;
  EXPECT_EQ(tried[0].best_so_far, 1);
  EXPECT_EQ(tried[1].best_so_far, 0.9);
  EXPECT_EQ(tried[2].best_so_far, 0.9) << "a wrong configuration must not count as the best";
  EXPECT_EQ(tried[3].best_so_far, 0.8);
  EXPECT_EQ(tried[1].seconds, 4);
  EXPECT_EQ(tried[2].seconds, 4.5) << "a second run begins its clock anew";
  EXPECT_EQ(tried[3].seconds, 6);
  EXPECT_EQ(tasks[0].noted_seconds, 6);
}

TEST(SummaryTest, GroupsFailuresThatDifferOnlyInNumbers) {
  const auto tasks = summarize({because(trial("w=1", Fate::wrong, 0), "3 of 512"),
                                because(trial("w=2", Fate::crash, 0), "SIGSEGV"),
                                because(trial("w=4", Fate::wrong, 0), "17 of 512"),
                                trial("w=8", Fate::slow, 1.8)});
  ASSERT_EQ(tasks[0].failures.size(), 3u);
  EXPECT_EQ(tasks[0].failures[0].fate, Fate::wrong);
  EXPECT_EQ(tasks[0].failures[0].count, 2);
  EXPECT_EQ(tasks[0].failures[0].reason, "3 of 512");
  EXPECT_EQ(tasks[0].failures[0].config, "w=1");
  EXPECT_EQ(tasks[0].count(Fate::slow), 1);
}

TEST(SummaryTest, EffectsAreGroupedByFieldValue) {
  const auto tasks =
      summarize({trial("keep=a w=8", Fate::ok, 1), trial("keep=a w=16", Fate::ok, 0.8),
                 trial("keep=a w=2", Fate::slow, 1.8), trial("keep=a w=16 x=1", Fate::crash, 0),
                 trial("no configuration", Fate::crash, 0)});
  ASSERT_EQ(tasks[0].effects.size(), 1u) << "keep and x have one value each";
  const FieldEffect& effect = tasks[0].effects[0];
  EXPECT_EQ(effect.field, "w");
  ASSERT_EQ(effect.values.size(), 3u);
  EXPECT_EQ(effect.values[0].value, "2");
  EXPECT_EQ(effect.values[0].ratios.least, 1.8);
  EXPECT_EQ(effect.values[1].value, "8");
  EXPECT_EQ(effect.values[2].value, "16");
  EXPECT_EQ(effect.values[2].tried, 2);
  EXPECT_EQ(effect.values[2].failed, 1);
}

TEST(SummaryTest, SeparatesTasksByOptionsProblemsDeviceAndBuild) {
  std::vector<Trial> trials(6, trial("w=1", Fate::ok, 1));
  trials[1].options = "cols=128";
  trials[2].problems = {"N=8"};
  trials[3].device["model"] = "n";
  trials[4].build = "other";
  trials[5].device["driver"] = 7;  // still a trial of task 0
  EXPECT_EQ(summarize(trials).size(), 5u);
}

}  // namespace
}  // namespace ligerdsl::tune
