#include "kernels/cross_entropy/target_counts.h"

#include "kernels/cross_entropy/cross_entropy_totals.h"
#include "kernels/cross_entropy/target_counts_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::target_counts_test {
namespace {

void run_and_check(std::vector<int64_t> labels, int64_t ignore_index, DType label_type,
                   const Values& weight) {
  SCOPED_TRACE(std::to_string(labels.size()) + " labels, " + std::to_string(weight.size()) +
               " weights");
  const auto n = static_cast<int64_t>(labels.size()), classes = static_cast<int64_t>(weight.size());
  const kernels::TargetCountsOptions options{.label_type = label_type,
                                             .has_weight = classes > 0,
                                             .classes = std::max<int64_t>(classes, 1)};
  Tensor counts(f32, {4}), label_tensor = Tensor(label_type, {n}).fill(labels);
  Arguments arguments = Arguments()
                            .tensor("counts", counts)
                            .tensor("labels", label_tensor)
                            .integer("ignore_index", ignore_index);
  Tensor weight_tensor(f32, {std::max<int64_t>(classes, 1)});
  if (classes > 0) arguments.tensor("weight", weight_tensor.fill(weight));
  const Values rounded = classes > 0 ? weight_tensor.values() : Values{};
  backend().run(kernels::target_counts(machine(), options), n, arguments);
  const Values expected = counts_reference(labels, ignore_index, rounded);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(counts.get(i), expected[i],
                2e-6 * backend().summation_slack() * std::fabs(expected[i]))
        << i;
  }
  EXPECT_TRUE(counts.untouched_outside());
}

std::vector<int64_t> random_labels(int64_t n, int64_t classes, int64_t ignore_index) {
  Random random(7);
  std::vector<int64_t> labels(n);
  for (int64_t& label : labels) label = random.below(4) == 0 ? ignore_index : random.below(classes);
  return labels;
}

TEST(TargetCounts, LabelsAndWeights) {
  const int64_t classes = 1300;
  Values weight = Random(2).normals(classes);
  for (double& w : weight) w = std::fabs(w) + 0.1;
  for (int64_t n : {1, 1000, 1024, 5003}) {
    for (DType label_type : {i64, i32}) {
      for (int64_t ignore_index : {-100, 3}) {  // 3 is also a class
        const auto labels = random_labels(n, classes, ignore_index);
        run_and_check(labels, ignore_index, label_type, {});
        run_and_check(labels, ignore_index, label_type, weight);
      }
    }
  }
}

// From kRowsOfOneProgram rows on, several programs store partial counts. Also tests one row fewer.
TEST(TargetCounts, ManyRowsTakePartialCounts) {
  const int64_t classes = 7;
  Values weight = Random(2).normals(classes);
  for (double& w : weight) w = std::fabs(w) + 0.1;
  for (int64_t n : {kernels::kRowsOfOneProgram - 1, kernels::kRowsOfOneProgram,
                    kernels::kRowsOfOneProgram + 3000}) {
    if (n > backend().budget()) continue;
    const auto labels = random_labels(n, classes, -100);
    run_and_check(labels, -100, i64, {});
    run_and_check(labels, -100, i32, weight);
  }
}

// The number of programs grows with the rows up to kMostTotalPrograms.
TEST(TargetCounts, NoProgramReadsAllOfManyRows) {
  const kernels::Operation operation = kernels::target_counts(machine(), {});
  ASSERT_EQ(operation.steps.size(), 2u);
  EXPECT_EQ(operation.steps[0].launch.grid_at(kernels::kRowsOfOneProgram - 1)[0], 0);
  EXPECT_EQ(operation.steps[0].launch.grid_at(kernels::kRowsOfOneProgram)[0], 8);
  EXPECT_EQ(operation.steps[0].launch.grid_at(1'000'000)[0], kernels::kMostTotalPrograms);
}

TEST(TargetCounts, NothingCounts) {
  run_and_check({-100, -100, -100}, -100, i64, {});
  run_and_check({-100, -100, -100}, -100, i64, {1, 2, 3});
  run_and_check({}, -100, i64, {1, 2, 3});
}

}  // namespace
}  // namespace ligerdsl::test::target_counts_test
