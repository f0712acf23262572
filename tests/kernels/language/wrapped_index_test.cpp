// Tests tile indices for which index times tile size overflows i64: nothing outside the view is
// read or written.
#include "ligerdsl/dsl.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::wrapped_index_test {
namespace {

constexpr int64_t kBlock = 256;

// Program p copies tile index[p] of x to tile index[p] of y.
kernels::Step copy(DType type) {
  KernelBuilder k("copy_at");
  View y = k.view("y", type, {dyn}), x = k.view("x", type, {dyn}),
       index = k.view("index", i64, {dyn});
  Scalar at = index.load({k.program_id(0)});
  y.partition({kBlock}).store({at}, x.partition({kBlock}).load({at}, {.pad = 1}));
  return {.program = k.finish(), .launch = kernels::library_launch(Size::rows(), 1)};
}

TEST(WrappedIndex, TouchesNothingOutsideTheView) {
  // The first five times 256 are, modulo 2^64: 2^63 - 256, -2^63, -256, -256 and -512.
  const std::vector<int64_t> indices = {
      INT64_MAX / kBlock, INT64_MAX / kBlock + 1, INT64_MAX, (int64_t{1} << 56) - 1, -2, -1, 1, 2,
      int64_t{1} << 40};
  for (DType type : {f32, i32, bf16}) {
    for (int64_t shift : {0, 1, 3}) {
      Tensor x(type, {100}, {}, shift), y(type, {100}, {}, shift),
          index(i64, {static_cast<int64_t>(indices.size())});
      for (int64_t i = 0; i < x.size(); ++i)
        is_integer(type) ? y.set_integer(i, i) : y.set(i, static_cast<double>(i));
      for (size_t i = 0; i < indices.size(); ++i)
        index.set_integer(static_cast<int64_t>(i), indices[i]);
      const Tensor before = y.clone();
      backend().run({.steps = {copy(type)}}, static_cast<int64_t>(indices.size()),
                    Arguments().tensor("y", y).tensor("x", x).tensor("index", index));
      EXPECT_TRUE(y.same_bits(before)) << name(type) << " +" << shift;
      EXPECT_TRUE(y.untouched_outside());
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::wrapped_index_test
