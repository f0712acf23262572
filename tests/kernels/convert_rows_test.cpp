#include "kernels/convert_rows.h"

#include "kernels/reduce_partials.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test {
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
        EXPECT_TRUE(out.same_bits(expected)) << name(from) << " to " << name(to) << ", " << cols << " columns";
        EXPECT_TRUE(out.untouched_outside());
      }
    }
  }
}

TEST(ZeroRows, OnlyTheRows) {
  for (DType type : kFloats) {
    for (int64_t cols : affordable({1, 7, 5000}, 5)) {
      const Tensor out = Tensor::rows(type, 5, cols, 3);
      backend().run(kernels::zero_rows(machine(), type, cols), 5, Arguments().tensor("out", out));
      for (double value : out.values()) ASSERT_EQ(value, 0.0);
      EXPECT_TRUE(out.untouched_outside());
    }
  }
}

TEST(ReducePartials, SumsOfRowsInAnyType) {
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
        operation.steps.push_back(
            kernels::reduce_partials(machine(), {{.from = from, .cols = cols, .accumulate = accumulate}}));
        backend().run(operation, n, Arguments().tensor("out", out).tensor("partials", in));
        EXPECT_TRUE(close_normwise(out.values(), expected, gate_r(f32, n))) << name(from) << " " << n;
      }
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test
