// Calls matmuls with operands at unaligned addresses or with unaligned row pitches.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

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

enum class Form { one_call, plan, plan_with_copies };

size_t bytes_requested = 0;  // bytes of workspace of the last call in one-call form

// Returns a context that sets bytes_requested.
ligerdsl_context_t recording_context() {
  static ligerdsl_context_t made = [] {
    static constexpr size_t kBytes = size_t{16} << 20;
    ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
    config.device = {LIGERDSL_CUDA, 0};
    require(ligerdsl_buffer_alloc(context(), kBytes, &config.user));
    config.workspace_alloc = [](void* memory, size_t bytes, size_t, ligerdsl_stream_t) -> void* {
      bytes_requested = bytes;
      return bytes <= kBytes ? memory : nullptr;
    };
    config.workspace_free = [](void*, void*, ligerdsl_stream_t) {};
    ligerdsl_context_t context = nullptr;
    require(ligerdsl_context_create(&config, &context));
    return context;
  }();
  return made;
}

size_t bytes_written = 0;  // bytes of workspace that the last execute changed

// Executes a plan. Checks that it writes nothing after the bytes of workspace that it reports.
void execute(const ligerdsl_matmul_nt_desc_t& desc, const ligerdsl_matmul_nt_args_t& args,
             bool with_copies) {
  ligerdsl_plan_t plan = nullptr;
  require(ligerdsl_matmul_nt_plan(context(), &desc, &plan));
  const size_t least = ligerdsl_plan_workspace_bytes_for(plan, kRows);
  const size_t most = ligerdsl_plan_workspace_bytes_with_copies(plan, kRows);
  ASSERT_NE(most, SIZE_MAX) << ligerdsl_last_error();
  EXPECT_EQ(most - least, on_gpu() ? 2 * (kRows * kWidth + kCols * kWidth) : 0);
  const size_t bytes = with_copies ? most : least;
  constexpr size_t kGuard = 256;
  std::vector<char> host(bytes + kGuard, 77);
  void* workspace = nullptr;
  require(ligerdsl_buffer_alloc(context(), host.size(), &workspace));
  require(ligerdsl_buffer_copy(context(), workspace, host.data(), host.size(), nullptr));
  require(ligerdsl_matmul_nt_execute(plan, &args, workspace, bytes, nullptr));
  require(ligerdsl_buffer_copy(context(), host.data(), workspace, host.size(), nullptr));
  require(ligerdsl_stream_sync(context(), nullptr));
  EXPECT_EQ(std::count(host.end() - kGuard, host.end(), 77), static_cast<ptrdiff_t>(kGuard));
  bytes_written = host.size() - static_cast<size_t>(std::count(host.begin(), host.end(), 77));
  require(ligerdsl_buffer_free(context(), workspace));
  ligerdsl_plan_destroy(plan);
}

Tensor multiply(const Layout& of_a, const Layout& of_b, Form form = Form::one_call) {
  const Tensor a = operand(kRows, kWidth, of_a, 3), b = operand(kCols, kWidth, of_b, 5);
  Tensor c(f32, {kRows, kCols});
  const Tensor before[] = {a.clone(), b.clone()};
  Transfer tensor;
  ligerdsl_matmul_nt_desc_t desc = LIGERDSL_MATMUL_NT_DESC_INIT;
  desc.n_inner = kWidth, desc.n_cols = kCols;
  desc.dtype = LIGERDSL_BF16, desc.c_dtype = LIGERDSL_F32;
  ligerdsl_matmul_nt_args_t args = LIGERDSL_MATMUL_NT_ARGS_INIT;
  args.a = tensor(a), args.b = tensor(b), args.c = tensor(c);
  if (form == Form::one_call)
    require(ligerdsl_matmul_nt(recording_context(), &desc, &args, nullptr));
  else
    execute(desc, args, form == Form::plan_with_copies);
  tensor.back();
  EXPECT_TRUE(a.same_bits(before[0]) && a.untouched_outside());
  EXPECT_TRUE(b.same_bits(before[1]) && b.untouched_outside());
  EXPECT_TRUE(c.untouched_outside());
  return c;
}

TEST(UnalignedCall, CopiesInTheOneCallForm) {
  if (!on_gpu()) GTEST_SKIP() << "only GPU kernels depend on alignment";
  const Tensor aligned = multiply({}, {});
  const size_t without_copies = bytes_requested;
  const auto expect_copy = [&](const Layout& of_a, const Layout& of_b, int64_t elements) {
    EXPECT_TRUE(multiply(of_a, of_b).same_bits(aligned));
    EXPECT_EQ(bytes_requested - without_copies, size_t(2 * elements));
  };
  expect_copy({}, {.shift = 1}, kCols * kWidth);
  expect_copy({.gap = 1}, {}, kRows * kWidth);
  expect_copy({}, {}, 0);
  expect_copy({}, {.shift = 1}, kCols * kWidth);
}

TEST(UnalignedCall, CopiesInAPlanWhoseWorkspaceHasRoom) {
  if (!on_gpu()) GTEST_SKIP() << "only GPU kernels depend on alignment";
  const Tensor aligned = multiply({}, {}, Form::plan);
  EXPECT_TRUE(multiply({}, {}, Form::plan_with_copies).same_bits(aligned));
  const size_t without_copies = bytes_written;
  for (const Layout& unaligned : {Layout{.shift = 1}, {.shift = 3}, {.gap = 1}, {.gap = 4}}) {
    EXPECT_TRUE(multiply(unaligned, {}, Form::plan_with_copies).same_bits(aligned));
    EXPECT_GT(bytes_written, without_copies) << "a was not copied";
    EXPECT_TRUE(multiply({}, unaligned, Form::plan_with_copies).same_bits(aligned));
    EXPECT_GT(bytes_written, without_copies) << "b was not copied";
  }
  const Tensor uncopied = multiply({}, {.shift = 1}, Form::plan);
  EXPECT_EQ(bytes_written, without_copies) << "copied without room";
  for (int64_t i = 0; i < kRows * kCols; ++i) ASSERT_NEAR(uncopied.get(i), aligned.get(i), 1e-3);
}

}  // namespace
}  // namespace ligerdsl::test::unaligned_call_test
