// Calls matmuls with operands at unaligned addresses or with unaligned row pitches.
#include <gtest/gtest.h>

#include "tests/kernels/fused_linear/library/linear_call.h"
#include "tests/support/random.h"

namespace ligerdsl::test::unaligned_call_test {
namespace {

// The smallest size at which a copy of one operand saves time.
constexpr int64_t kRows = 640, kCols = 512, kWidth = 512;

struct Layout {
  int64_t gap = 0, shift = 0;  // elements after a row, and before the first row
};

Tensor operand(int64_t rows, int64_t cols, const Layout& layout, uint64_t seed) {
  const std::vector<double> random = Random(seed).normals(rows * cols);
  return Tensor::rows(bf16, rows, cols, layout.gap, layout.shift).fill(random);
}

Tensor multiply(const Layout& of_a, const Layout& of_b) {
  const Tensor a = operand(kRows, kWidth, of_a, 3), b = operand(kCols, kWidth, of_b, 5);
  Tensor c(f32, {kRows, kCols});
  const Tensor before[] = {a.clone(), b.clone()};
  Transfer tensor;
  ligerdsl_matmul_nt_desc_t desc = LIGERDSL_MATMUL_NT_DESC_INIT;
  desc.n_inner = kWidth, desc.n_cols = kCols;
  desc.dtype = LIGERDSL_BF16, desc.c_dtype = LIGERDSL_F32;
  ligerdsl_matmul_nt_args_t args = LIGERDSL_MATMUL_NT_ARGS_INIT;
  args.a = tensor(a), args.b = tensor(b), args.c = tensor(c);
  require(ligerdsl_matmul_nt(context(), &desc, &args, nullptr));
  tensor.back();
  EXPECT_TRUE(a.same_bits(before[0]) && a.untouched_outside());
  EXPECT_TRUE(b.same_bits(before[1]) && b.untouched_outside());
  EXPECT_TRUE(c.untouched_outside());
  return c;
}

// The kernel for unaligned operands adds in another order, so identical bits show that the library
// copied the operands.
TEST(UnalignedCall, HasTheBitsOfAlignedOperands) {
  if (!on_gpu()) GTEST_SKIP() << "only GPU kernels depend on alignment";
  const Tensor aligned = multiply({}, {});
  EXPECT_TRUE(multiply({}, {.shift = 1}).same_bits(aligned)) << "address of b";
  EXPECT_TRUE(multiply({.gap = 1}, {}).same_bits(aligned)) << "row pitch of a";
  EXPECT_TRUE(multiply({}, {}).same_bits(aligned)) << "aligned operands again";
}

}  // namespace
}  // namespace ligerdsl::test::unaligned_call_test
