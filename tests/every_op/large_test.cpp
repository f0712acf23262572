// Tests every operation on more than 2^31 elements, and on more than 2^32 if that takes at most 60
// GiB. Narrow operations are also tested on more than 2^31 rows. On a CPU and on the emulated GPU,
// the same code runs with few elements, which tests the comparison itself. distant_rows_test.cpp
// tests distant rows.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "tests/every_op/large_run.h"

namespace ligerdsl::test::large_test {
namespace {

constexpr int64_t kFew = 1 << 14;

Limits limits() {
  return session().real_gpu() ? Limits{} : Limits{kFew};
}

// Returns the period of one-dimensional tensors, a prime number of elements.
int64_t long_period() {
  return session().real_gpu() ? 65521 : 251;
}

double total(const std::vector<double>& values, const std::vector<double>& times) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += values[i] * times[i];
  return sum;
}

// Returns element `index` of the large tensor's target_counts, (1/n, 1/S, W, n), from those of the
// regions. Region i occurs times[i] times.
double counts(size_t index, const std::vector<double>& of_region,
              const std::vector<double>& times) {
  if (index == 2) return of_region[0];
  if (index == 3) return total(of_region, times);
  std::vector<double> inverse;
  for (const double value : of_region) inverse.push_back(1 / value);
  return 1 / total(inverse, times);
}

double norm(size_t, const std::vector<double>& of_region, const std::vector<double>& times) {
  std::vector<double> squares;
  for (const double value : of_region) squares.push_back(value * value);
  return std::sqrt(total(squares, times));
}

// Returns clip_factor = min(1, 1 / (norm + 1e-6)) of the large tensor, from the results of the
// regions.
double clip_factor(size_t, const std::vector<double>& of_region, const std::vector<double>& times) {
  std::vector<double> norms;
  for (const double factor : of_region) norms.push_back(1 / factor);
  return 1 / norm(0, norms, times);
}

// Returns the `large` cases of kernels/*/*.op.py. The generated file uses `gpu`, `prime` and the
// functions above.
std::vector<LargeCase> large_cases() {
  const int64_t prime = long_period();
  const bool gpu = session().real_gpu();
  return {
#include "every_op_large.inc"
  };
}

class Large : public testing::TestWithParam<LargeCase> {};

TEST_P(Large, EveryElementIsRight) {
  const ContextHandle context;
  LargeRun run(context, GetParam(), limits());
  const auto begin = std::chrono::steady_clock::now();
  if (!run.run()) GTEST_SKIP() << run.why_not();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(run.differences(), std::vector<std::string>());
  std::printf("%lld rows, %.2f s\n", static_cast<long long>(run.regions().rows()), took.count());
  // The comparison must find each single wrong element, even in the last row.
  for (const auto& [name, row] : run.row_results()) {
    const int64_t last = run.regions().rows() * row - 1;
    for (const int64_t element : {int64_t{0}, run.regions().all().back().first * row, last}) {
      run.damage(name, element);
      const std::vector<std::string> found = run.differences();
      ASSERT_EQ(found.size(), 1u) << name << ", element " << element;
      EXPECT_EQ(found[0].rfind(name + ": 1 of ", 0), 0u) << found[0];
      run.damage(name, element);
      if (session().real_gpu()) break;
    }
  }
}

std::string large_name(const testing::TestParamInfo<LargeCase>& info) {
  std::string name = info.param.many_rows ? "rows_" : "";
  name += name_of(info.param.which);
  return name;
}
INSTANTIATE_TEST_SUITE_P(EveryOp, Large, testing::ValuesIn(large_cases()), large_name);

TEST(LargeCases, CoverEveryOperation) {
  std::vector<Case> list;
  for (const LargeCase& one : large_cases()) list.push_back(one.which);
  const std::vector<std::string> exceptions = {
#include "every_op_not_large.inc"
  };
  EXPECT_EQ(operations_without(list), exceptions);
}

TEST(LargeCases, RegionsAreWholePeriods) {
  const Regions regions(7, {20, 40}, 50);
  ASSERT_EQ(regions.all().size(), 3u);
  EXPECT_EQ(regions.all()[0].rows, 21);
  EXPECT_EQ(regions.all()[1].first, 21);
  EXPECT_EQ(regions.rows(), 56);
  EXPECT_EQ(regions.small_rows(), 21);
  EXPECT_EQ(regions.small_row(20), 6);
  EXPECT_EQ(regions.small_row(21), 7);
  EXPECT_EQ(regions.small_row(55), 20);
}

// If a sum lacks a region or confuses two regions, its error must exceed the gate.
TEST(LargeCases, WrongSumsAreFound) {
  LargeCase wrong{.which = {"rms_norm_backward", {"H=64", "d_weight_dtype=f32"}}};
  wrong.combine["d_weight"] = [](size_t, const std::vector<double>& of_region,
                                 const std::vector<double>& times) {
    return total(of_region, times) - times.back() * of_region.back();
  };
  const ContextHandle context;
  LargeRun run(context, wrong, {kFew});
  ASSERT_TRUE(run.run()) << run.why_not();
  ASSERT_EQ(run.differences().size(), 1u);
  EXPECT_EQ(run.differences()[0].rfind("d_weight: ", 0), 0u);
}

}  // namespace
}  // namespace ligerdsl::test::large_test
