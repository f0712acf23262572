#include "kernels/reduce/convert_rows.h"

#include "kernels/reduce/reduce_partials.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::convert_rows_test {
namespace {

TEST(ConvertRows, EveryPairOfTypes) {
  int64_t number = 0;
  for (int64_t cols : affordable({1, 3, 64, 1000, 5000}, 5)) {
    for (DType from : kFloats) {
      for (DType to : kFloats) {
        const int64_t gap = gap_of(number++);
        const Tensor in = random_rows(from, 5, cols, 1, gap), out = Tensor::rows(to, 5, cols, gap);
        const Tensor expected = Tensor::rows(to, 5, cols, gap).fill(in.values());
        backend().run(kernels::convert_rows(machine(), from, to, cols), 5,
                      Arguments().tensor("in", in).tensor("out", out));
        EXPECT_TRUE(out.same_bits(expected))
            << name(from) << " to " << name(to) << ", " << cols << " columns";
        EXPECT_TRUE(out.untouched_outside());
      }
    }
  }
}

TEST(ZeroRows, WritesOnlyTheRows) {
  for (DType type : kFloats) {
    for (int64_t cols : affordable({1, 7, 5000}, 5)) {
      const Tensor out = Tensor::rows(type, 5, cols, 3);
      backend().run(kernels::zero_rows(machine(), type, cols), 5, Arguments().tensor("out", out));
      for (double value : out.values()) ASSERT_EQ(value, 0.0);
      EXPECT_TRUE(out.untouched_outside());
    }
  }
}

TEST(ReducePartials, SumsRowsOfEveryType) {
  for (DType from : kFloats) {
    for (bool accumulate : {false, true}) {
      for (int64_t n : {1, 5, 33}) {
        const int64_t cols = 700;
        const Tensor in = random_rows(from, n, cols, 1, 3);
        Tensor out(f32, {cols});
        Values expected = accumulate ? Random(2).normals(cols) : Values(cols, 0.0);
        out.fill(expected);
        for (int64_t i = 0; i < n * cols; ++i) expected[i % cols] += in.get(i);
        kernels::Operation operation;
        operation.steps.push_back(kernels::reduce_partials(
            machine(), {{.from = from, .cols = cols, .accumulate = accumulate}}));
        backend().run(operation, n, Arguments().tensor("out", out).tensor("partials", in));
        EXPECT_TRUE(close_normwise(out.values(), expected, gate_r(f32, n)))
            << name(from) << " " << n;
      }
    }
  }
}

// One launch with every kind of sum: to rows and single elements of several dtypes, per group, and
// over groups with modulations.
TEST(ReducePartials, SeveralSumsPerLaunch) {
  for (int64_t groups : {1, 3, 20}) {
    for (int64_t parts : {1, 3, 150}) {
      const int64_t cols = 200, n = groups * parts;
      if (backend().name() == "interpreter" && n > 500) continue;
      SCOPED_TRACE(std::to_string(groups) + " groups of " + std::to_string(parts));
      const Tensor in = random_rows(f32, n, cols, 1), numbers = random_rows(f32, n, 1, 2),
                   modulation = random_rows(bf16, groups, cols, 3, 8),
                   weight = random_vector(f16, cols, 4);
      Tensor row(f32, {cols}), of_groups(f32, {groups, parts, cols});
      of_groups.fill(in.values());
      const Tensor number(bf16, {1}), sums(bf16, {groups, cols}), modulated(f32, {cols});
      const Values before = Random(5).normals(cols), w = weight.values(), m = modulation.values();
      row.fill(before);
      Values of_row = before, of_number(1), of_sums(groups * cols), of_modulated(cols);
      for (int64_t i = 0; i < n * cols; ++i) {
        const int64_t group = i / cols / parts, c = i % cols;
        of_row[c] += in.get(i);
        of_sums[group * cols + c] += in.get(i) * (w[c] + 0.5);
        of_modulated[c] += in.get(i) * (1 + m[group * cols + c]);
      }
      for (double value : numbers.values()) of_number[0] += value;
      kernels::Operation operation;
      operation.steps.push_back(kernels::reduce_partials(
          machine(), {{.out = "row", .partials = "in", .cols = cols, .accumulate = true},
                      {.out = "number", .partials = "numbers", .type = bf16, .cols = 1},
                      {.out = "sums",
                       .partials = "of_groups",
                       .type = bf16,
                       .cols = cols,
                       .groups = groups,
                       .most = parts,
                       .weight = "weight",
                       .weight_type = f16,
                       .weight_offset = "offset"},
                      {.out = "modulated",
                       .partials = "of_groups",
                       .cols = cols,
                       .groups = groups,
                       .most = parts,
                       .modulation = "modulation",
                       .modulation_type = bf16}}));
      backend().run(operation, n,
                    Arguments()
                        .tensor("row", row)
                        .tensor("in", in)
                        .tensor("number", number)
                        .tensor("numbers", numbers)
                        .tensor("sums", sums)
                        .tensor("of_groups", of_groups)
                        .tensor("weight", weight)
                        .number("offset", 0.5)
                        .tensor("modulated", modulated)
                        .tensor("modulation", modulation));
      EXPECT_TRUE(close_normwise(row.values(), of_row, gate_r(f32, n)));
      EXPECT_TRUE(close_normwise(number.values(), of_number, gate_r(bf16, n)));
      EXPECT_TRUE(close_normwise(sums.values(), of_sums, gate_r(bf16, parts)));
      EXPECT_TRUE(close_normwise(modulated.values(), of_modulated, gate_r(f32, n)));
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::convert_rows_test
