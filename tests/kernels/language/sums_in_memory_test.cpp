// Tests additions of tiles to memory: every dtype, views with any strides and sizes, and repeated
// additions.
#include <cmath>

#include "kernels/core/record.h"
#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::sums_in_memory_test {
namespace {

constexpr DType kNumbers[] = {f32, f16, bf16, i8, i16, i32, i64};

struct Meta {
  DType type = f32;
  int64_t rows = 4, block = 32;  // size of a tile
  bool along = false;            // tiles are parts of a row and begin at vector boundaries
};

// Adds x to y twice, in tiles that exceed both views.
void add(KernelBuilder& k, const Meta& m) {
  View y = k.view("y", m.type, {dyn, dyn}), x = k.view("x", m.type, {dyn, dyn});
  const Scalar first = k.program_id(0),
               blocks = cdiv(x.dim(1) + x.max_alignment_offset().to(i64), m.block);
  if (m.along) {
    const Scalar offset = y.alignment_offset({first});
    const Partition to = y.partition({squeeze, m.block}), from = x.partition({squeeze, m.block});
    k.for_range(0, blocks, 1, [&](const Scalar& i) {
      const Tile tile = from.load({first, i}, {.alignment_offset = offset});
      for (int time = 0; time < 2; ++time) to.add({first, i}, tile, {.alignment_offset = offset});
    });
    return;
  }
  const Partition to = y.partition({m.rows, m.block}), from = x.partition({m.rows, m.block});
  k.for_range(0, blocks, 1, [&](const Scalar& i) {
    to.add({first, i}, from.load({first, i}));
    to.add({first, i}, from.load({first, i}));
  });
}

Tensor whole_numbers(DType type, int64_t rows, int64_t cols, int64_t gap) {
  Tensor tensor(type, {rows, cols}, {cols + gap, 1});
  Values values(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(static_cast<int64_t>(i * 7 % 23) - 11);
  tensor.fill(values);
  return tensor;
}

TEST(SumsInMemory, EveryTypeAndShape) {
  for (const DType type : kNumbers)
    for (const bool along : {false, true})
      for (const auto [rows, cols, gap] :
           {std::array<int64_t, 3>{8, 64, 0}, {9, 61, 3}, {1, 7, 0}, {5, 130, 6}}) {
        SCOPED_TRACE(std::string(name(type)) + " " + std::to_string(rows) + "x" +
                     std::to_string(cols) + (along ? " along" : ""));
        const Meta meta{.type = type, .along = along};
        const kernels::Operation operation{
            .steps = {kernels::record_step("add", type, add, meta,
                                           kernels::library_launch(Size::rows(), 2))}};
        const Tensor x = whole_numbers(type, rows, cols, gap),
                     y = whole_numbers(type, rows, cols, gap);
        backend().run(operation, along ? rows : ceil_div(rows, meta.rows),
                      Arguments().tensor("y", y).tensor("x", x));
        for (int64_t i = 0; i < rows * cols; ++i) ASSERT_EQ(y.get(i), 3 * x.get(i)) << i;
        EXPECT_TRUE(y.untouched_outside());
      }
}

// Program p adds p and 2 to element p. Its last addition is outside the view and has no effect.
void count(KernelBuilder& k, const Meta& m) {
  View counts = k.view("counts", m.type, {dyn});
  const Scalar p = k.program_id(0);
  counts.add({p}, p.to(m.type));
  counts.add({p}, 2);
  counts.add({p + 1000000}, 2);
}

TEST(SumsInMemory, Scalars) {
  for (const DType type : kNumbers) {
    Tensor counts(type, {5});
    counts.fill(Values(5, 10));
    backend().run({.steps = {kernels::record_step("count", type, count, Meta{.type = type},
                                                  kernels::library_launch(Size::rows(), 2))}},
                  5, Arguments().tensor("counts", counts));
    for (int64_t i = 0; i < 5; ++i)
      EXPECT_EQ(counts.get(i), 12 + static_cast<double>(i)) << name(type);
  }
}

// Infinities and NaN behave as with a load and a store. Subnormal results do too, unless a GPU's
// memory flushes them to 0.
TEST(SumsInMemory, SpecialFloats) {
  const Values numbers{1e-40, -3e-39, INFINITY, -INFINITY, NAN, 3e38, -0.0, 1e-45};
  const Meta meta{.rows = 1, .block = 32};
  Tensor x(f32, {1, 8}), y(f32, {1, 8});
  x.fill(numbers), y.fill(Values(8, 0));
  backend().run({.steps = {kernels::record_step("add", f32, add, meta,
                                                kernels::library_launch(Size::rows(), 1))}},
                1, Arguments().tensor("y", y).tensor("x", x));
  for (int64_t i = 0; i < 8; ++i) {
    const auto one = static_cast<float>(numbers[static_cast<size_t>(i)]);
    const double wanted = one + one;
    if (std::isnan(wanted))
      EXPECT_TRUE(std::isnan(y.get(i))) << i;
    else if (machine().is_gpu() && std::fabs(wanted) < 0x1p-126)
      EXPECT_TRUE(y.get(i) == wanted || y.get(i) == 0) << i;
    else
      EXPECT_EQ(y.get(i), wanted) << i;
  }
}

}  // namespace
}  // namespace ligerdsl::test::sums_in_memory_test
