#include "kernels/elementwise/vector_add.h"

#include "tests/kernels/shapes.h"

namespace ligerdsl::test::vector_add_test {
namespace {

TEST(VectorAdd, AgreesWithFloat64) {
  for (DType type : kFloats) {
    for (int64_t n : affordable({1, 7, 1023, 4096, 100001}, 1)) {
      SCOPED_TRACE(std::string(name(type)) + " n=" + std::to_string(n));
      Tensor a = random_vector(type, n, 1), b = random_vector(type, n, 2), out(type, {n});
      backend().run(kernels::vector_add(machine(), type), n,
                    Arguments().tensor("out", out).tensor("a", a).tensor("b", b));
      Values expected(n);
      for (int64_t i = 0; i < n; ++i) expected[i] = a.get(i) + b.get(i);
      EXPECT_TRUE(close(out.values(), expected, gate_e(type)));
      EXPECT_TRUE(out.untouched_outside());

      backend().run(kernels::vector_add(machine(), type), n,
                    Arguments().tensor("out", a).tensor("a", a).tensor("b", b));
      EXPECT_TRUE(a.same_bits(out)) << "in place";
    }
  }
}

TEST(VectorAdd, UnalignedAndEmpty) {
  Tensor a(f32, {100}, {1}, 1), b(f32, {100}, {1}, 3), out(f32, {100}, {1}, 2);
  a.fill(Random(1).normals(100));
  b.fill(Random(2).normals(100));
  const auto add = kernels::vector_add(machine(), f32);
  backend().run(add, 100, Arguments().tensor("out", out).tensor("a", a).tensor("b", b));
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(out.get(i), static_cast<float>(a.get(i) + b.get(i)));
  EXPECT_TRUE(out.untouched_outside());

  Tensor none(f32, {0});
  backend().run(add, 0, Arguments().tensor("out", none).tensor("a", none).tensor("b", none));
  EXPECT_TRUE(none.untouched_outside());
}

// Arrays are larger than a block and begin at different elements of a vector. Also runs in place.
TEST(VectorAdd, AddressesInsideVectors) {
  for (DType type : kFloats) {
    for (int64_t shift : {0, 1, 2, 3, 5}) {
      const int64_t n = 5001;
      Tensor a(type, {n}, {}, shift), b(type, {n}, {}, 3), out(type, {n}, {}, 7 - shift);
      a.fill(Random(1).normals(n));
      b.fill(Random(2).normals(n));
      const auto add = kernels::vector_add(machine(), type);
      backend().run(add, n, Arguments().tensor("out", out).tensor("a", a).tensor("b", b));
      Values expected(n);
      for (int64_t i = 0; i < n; ++i) expected[i] = a.get(i) + b.get(i);
      EXPECT_TRUE(close(out.values(), expected, gate_e(type))) << name(type) << " +" << shift;
      backend().run(add, n, Arguments().tensor("out", a).tensor("a", a).tensor("b", b));
      EXPECT_TRUE(a.same_bits(out)) << "in place";
      for (const Tensor& t : {a, b, out}) EXPECT_TRUE(t.untouched_outside());
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::vector_add_test
