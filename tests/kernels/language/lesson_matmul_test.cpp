// Compares every step of lesson 7 with float64.
#include "examples/lessons/07_matmul.cpp"
#include "kernels/elementwise/activation_reference.h"
#include "kernels/matmul/matmul_reference.h"
#include "tests/kernels/language/author_launch.h"

namespace ligerdsl::test::lesson_matmul_test {
namespace {

// c has more tiles than the smallest GPU has SMs, and partial tiles at both edges. Rows are whole
// vectors.
constexpr int64_t kM = 136, kN = 200, kK = 104;

struct Product {
  Tensor a = random_rows(bf16, kM, kK, 31), b = random_rows(bf16, kK, kN, 32),
         c = Tensor(bf16, {kM, kN});
  Tensor bias = random_vector(bf16, kN, 33);

  void check(const Kernel<Meta>& rung, const Meta& meta) {
    SCOPED_TRACE(rung.name);
    const bool linear = &rung == &matmul_linear;
    std::vector<Given> tensors{{"c", c}, {"a", a}, {"b", b}};
    if (linear) tensors.push_back({"bias", bias});
    expect_aligned([&] { run(rung, meta, tensors); });
    reference::MatmulCase which{.m = kM, .n = kN, .k = kK};
    if (linear) which.f = reference::ActivationKind::gelu_tanh;
    const Values wanted = reference::matmul_reference(
        which, a.values(), b.values(), linear ? bias.values() : Values{}, c.values());
    EXPECT_TRUE(close_normwise(c.values(), wanted, gate_r(bf16, kK) * backend().summation_slack()));
  }
};

TEST(LessonMatmul, EveryRung) {
  const Meta small{.block_m = 16, .block_n = 16, .block_k = 16, .warps = 1};
  const Meta tile{.block_m = 64, .block_n = 64, .block_k = 32, .warps = 4};
  Product().check(matmul_plain, small);
  for (const Kernel<Meta>* rung :
       {&matmul_tiles, &matmul_in_flight, &matmul_grouped, &matmul_persistent, &matmul_linear})
    Product().check(*rung, tile);
}

}  // namespace
}  // namespace ligerdsl::test::lesson_matmul_test
