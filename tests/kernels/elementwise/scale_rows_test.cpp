// Tests scale_rows, which multiplies rows by a factor that it reads on the device.
#include "kernels/elementwise/scale_rows.h"

#include "tests/kernels/shapes.h"

namespace ligerdsl::test::scale_rows_test {
namespace {

struct Trial {
  DType type;
  bool per_row;
  int64_t n, cols;
  Tensor x, factor, out;

  Trial(DType type, bool per_row, int64_t n, int64_t cols, int64_t gap = 0)
      : type(type), per_row(per_row), n(n), cols(cols) {
    x = random_rows(type, n, cols, 1, gap);
    factor = random_vector(f32, per_row ? n : 1, 2);
    out = Tensor::rows(type, n, cols, gap);
  }
  void run(const Tensor& to) {
    backend().run(
        kernels::scale_rows(machine(),
                            {.type = type, .factor_type = f32, .per_row = per_row, .cols = cols}),
        n, Arguments().tensor("in", x).tensor("factor", factor).tensor("out", to));
  }
  void check() {
    SCOPED_TRACE(std::string(name(type)) + " n=" + std::to_string(n) +
                 " cols=" + std::to_string(cols) + (per_row ? " per row" : ""));
    Values expected = x.values();
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] *= factor.get(per_row ? i / static_cast<size_t>(cols) : 0);
    run(out);
    EXPECT_TRUE(close(out.values(), expected, gate_e(type)));
    for (const Tensor& t : {x, factor, out}) EXPECT_TRUE(t.untouched_outside());
  }
};

TEST(ScaleRows, WidthsAndTypes) {
  int64_t number = 0;
  for (const auto& [cols, type] :
       values_and_types(affordable({1, 8, 41, 512, 1000, 4096, 4097, 14336, 32768}, 4), kFloats)) {
    Trial(type, false, 4, cols, gap_of(number++)).check();
    Trial(type, true, 4, cols, gap_of(number)).check();
  }
}

TEST(ScaleRows, AnyNumberOfRows) {
  for_any_number_of_rows([](DType type, int64_t n, int64_t cols) {
    Trial(type, false, n, cols).check();
    Trial(type, true, n, cols).check();
  });
}

TEST(ScaleRows, InPlaceIsBitEqual) {
  for (DType type : kFloats) {
    for (bool per_row : {false, true}) {
      Trial run(type, per_row, 5, 333, 8);
      run.run(run.out);
      run.run(run.x);
      EXPECT_TRUE(run.x.same_bits(run.out)) << name(type);
    }
  }
}

// Scales rows by 1, 0 and infinity.
TEST(ScaleRows, OneZeroAndInfinity) {
  Trial run(bf16, true, 3, 70);
  run.factor.set(0, 1);
  run.factor.set(1, 0);
  run.factor.set(2, INFINITY);
  for (int64_t j = 0; j < 70; ++j) run.x.set(2 * 70 + j, j % 2 ? -0.5 : 2);
  run.x.set(70, INFINITY);
  run.run(run.out);
  for (int64_t j = 0; j < 70; ++j) {
    EXPECT_EQ(run.out.get(j), run.x.get(j));
    if (j > 0) {
      EXPECT_EQ(run.out.get(70 + j), 0);
    }
    EXPECT_EQ(run.out.get(2 * 70 + j), j % 2 ? -INFINITY : INFINITY);
  }
  EXPECT_TRUE(std::isnan(run.out.get(70)));
}

}  // namespace
}  // namespace ligerdsl::test::scale_rows_test
