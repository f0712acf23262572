// Tests execute during stream capture, on the fake GPU of fake_gpu_test.cpp. Even a plan's first
// execute only launches: it does not allocate, wait, compile or query anything. Each launch has the
// attribute that lets it overlap the previous launch.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <functional>

#include "allocation_counter.h"
#include "support.h"
#include "tests/runtime/fake_cuda.h"

namespace ligerdsl::test::capture_test {
namespace {

// A static initialiser sets the variable, because the library reads its environment only once.
const bool environment_set = setenv("LIGERDSL_LIBCUBLASLT", FAKE_CUBLASLT, 1) == 0;

const FakeCudaControl& driver() {
  static const auto* const control = static_cast<const FakeCudaControl*>(
      dlsym(dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL), "fake_cuda_control"));
  return *control;
}

ligerdsl_stream_t stream() {
  return reinterpret_cast<ligerdsl_stream_t>(uintptr_t{0x700});
}

// Memory of the fake GPU, which is host memory with the alignment of a GPU's.
struct Memory {
  Memory(const Context& context, size_t bytes) : buffer(context, bytes + 256) {
    std::memset(buffer.data(), 0, buffer.bytes());
  }
  void* data() const {
    return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(buffer.data()) + 255) / 256 * 256);
  }
  Buffer buffer;
};

struct Remote {
  Remote(const Context& context, int32_t dtype, std::vector<int64_t> shape)
      : memory(context, 65536),
        tensor(memory.data(), {LIGERDSL_CUDA, 0}, dtype, std::move(shape)) {}
  operator const ligerdsl_tensor_t*() const { return tensor; }
  Memory memory;
  Tensor tensor;
};

class Capture : public testing::Test {
 protected:
  Capture() : context_(fresh()) {
    VectorAddDesc desc = vector_add_desc();
    desc.dtype = LIGERDSL_F32;
    const VectorAddPlan plan(context_, desc);
    const Remote a = f32({64}), b = f32({64}), out = f32({64});
    VectorAddArgs args = vector_add_args();
    args.a = a;
    args.b = b;
    args.out = out;
    plan(args, nullptr, 0, stream());  // the first call resolves functions of the fake driver
  }
  ~Capture() override { driver().set_capturing(false); }

  static Context fresh() {
    EXPECT_TRUE(environment_set);
    driver().reset();
    return Context::cuda(0);
  }

  Remote f32(std::vector<int64_t> shape) const {
    return Remote(context_, LIGERDSL_F32, std::move(shape));
  }
  Remote i64(std::vector<int64_t> shape) const {
    return Remote(context_, LIGERDSL_I64, std::move(shape));
  }

  // Captures the first call of the plan.
  template <class Plan, class Args>
  void expect_launches(int64_t expected, const Plan& plan, const Args& args, int64_t rows) {
    const size_t bytes = plan.workspace_bytes(rows);
    const Memory workspace(context_, bytes);
    const auto context_calls = [] {
      return driver().calls_of("cuCtxGetCurrent") + driver().calls_of("cuCtxPushCurrent") +
             driver().calls_of("cuCtxPopCurrent");
    };
    driver().set_capturing(true);
    const int64_t launches = driver().calls_of("cuLaunchKernelEx"), contexts = context_calls();
    const int64_t calls = driver().call_count(), taken = allocations();
    plan(args, workspace.data(), bytes, stream());
    EXPECT_EQ(allocations() - taken, 0);
    EXPECT_EQ(driver().calls_of("cuLaunchKernelEx") - launches, expected);
    EXPECT_EQ(driver().call_count() - calls, expected + context_calls() - contexts)
        << "calls other than launches";
    driver().set_capturing(false);
    FakeCudaControl::Launch last{};
    ASSERT_TRUE(driver().last_launch(&last));
    EXPECT_TRUE(last.overlaps);
    EXPECT_EQ(last.stream, reinterpret_cast<void*>(uintptr_t{0x700}));
  }

  Context context_;
};

TEST_F(Capture, Norm) {
  const Remote x = f32({16, 64}), d_y = f32({16, 64}), d_x = f32({16, 64}), weight = f32({64}),
               rstd = f32({16}), d_weight = f32({64});
  RmsNormBackwardDesc desc = rms_norm_backward_desc();
  desc.n_cols = 64;
  desc.dtype = desc.weight_dtype = desc.d_weight_dtype = LIGERDSL_F32;
  RmsNormBackwardArgs args = rms_norm_backward_args();
  args.d_y = d_y;
  args.x = x;
  args.weight = weight;
  args.rstd = rstd;
  args.d_x = d_x;
  args.d_weight = d_weight;
  expect_launches(2, RmsNormBackwardPlan(context_, desc), args, 16);
}

// Seed and offset are read from device memory, so each replay of a graph can draw new numbers.
TEST_F(Capture, Dropout) {
  const Remote x = f32({16, 64}), y = f32({16, 64}), seed = i64({1}), offset = i64({1});
  DropoutForwardDesc desc = dropout_forward_desc();
  desc.n_cols = 64;
  desc.dtype = LIGERDSL_F32;
  desc.with_device_seed = 1;
  DropoutForwardArgs args = dropout_forward_args();
  args.x = x;
  args.y = y;
  args.device_seed = seed;
  args.device_offset = offset;
  expect_launches(1, DropoutForwardPlan(context_, desc), args, 16);
}

TEST_F(Capture, CrossEntropy) {
  const Remote logits = f32({16, 64}), labels = i64({16}), loss = f32({1});
  CrossEntropyDesc desc = cross_entropy_desc();
  desc.n_classes = 64;
  desc.dtype = LIGERDSL_F32;
  desc.label_dtype = LIGERDSL_I64;
  desc.with_d_logits = desc.in_place = 1;
  CrossEntropyArgs args = cross_entropy_args();
  args.logits = args.d_logits = logits;
  args.labels = labels;
  args.loss = loss;
  expect_launches(3, CrossEntropyPlan(context_, desc), args, 16);  // count, rows, sum of losses
}

TEST_F(Capture, Divergence) {
  const Remote log_q = f32({16, 64}), log_p = f32({16, 64}), labels = i64({16}), loss = f32({1});
  JsdDesc desc = jsd_desc();
  desc.n_cols = 64;
  desc.dtype = desc.target_dtype = LIGERDSL_F32;
  desc.label_dtype = LIGERDSL_I64;
  desc.with_d_input = desc.in_place = 1;
  JsdArgs args = jsd_args();
  args.input = args.d_input = log_q;
  args.target = log_p;
  args.labels = labels;
  args.loss = loss;
  expect_launches(3, JsdPlan(context_, desc), args, 16);  // count, rows, sum of losses
}

TEST_F(Capture, NormOfAList) {
  const Remote a = f32({16, 64}), b = f32({30}), norm = f32({1});
  GlobalNormDesc desc = global_norm_desc();
  desc.dtype = LIGERDSL_F32;
  const ligerdsl_tensor_t tensors[] = {a.tensor.raw(), b.tensor.raw()};
  GlobalNormArgs args = global_norm_args();
  args.tensors = tensors;
  args.n_tensors = 2;
  args.norm = norm;
  expect_launches(3, GlobalNormPlan(context_, desc), args,
                  16 * 64 + 30 + 2 * 65536);  // one launch per tensor, and the sum
}

// In the one-call form, the context would have to allocate workspace, which a capture forbids. A
// caller's workspace allocator is responsible for captures itself.
TEST_F(Capture, WorkspaceOfTheCaller) {
  struct Source {
    std::vector<char> memory = std::vector<char>(1 << 20);
    int taken = 0, given = 0;
  } source;
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  config.device = {LIGERDSL_CUDA, 0};
  config.user = &source;
  config.workspace_alloc = [](void* user, size_t bytes, size_t align,
                              ligerdsl_stream_t on) -> void* {
    auto& from = *static_cast<Source*>(user);
    EXPECT_EQ(on, stream());
    EXPECT_LT(bytes + align, from.memory.size());
    ++from.taken;
    return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(from.memory.data()) + align - 1) /
                                   align * align);
  };
  config.workspace_free = [](void* user, void*, ligerdsl_stream_t on) {
    EXPECT_EQ(on, stream());
    ++static_cast<Source*>(user)->given;
  };
  const Context callers(config);
  RmsNormBackwardDesc desc = rms_norm_backward_desc();
  desc.d_weight_dtype = LIGERDSL_F32;
  const auto call = [&](const Context& context, int64_t rows) {
    const Remote x = f32({rows, 4096}), d_y = f32({rows, 4096}), d_x = f32({rows, 4096}),
                 weight = f32({4096}), rstd = f32({rows}), d_weight = f32({4096});
    RmsNormBackwardArgs args = rms_norm_backward_args();
    args.d_y = d_y;
    args.x = x;
    args.weight = weight;
    args.rstd = rstd;
    args.d_x = d_x;
    args.d_weight = d_weight;
    driver().set_capturing(rows > 1);
    const ligerdsl_status_t status =
        ligerdsl_rms_norm_backward(context.get(), &desc, &args, stream());
    driver().set_capturing(false);
    return status;
  };
  ASSERT_EQ(call(callers, 1), LIGERDSL_SUCCESS) << ligerdsl_last_error();  // makes the plan
  ASSERT_EQ(call(callers, 3), LIGERDSL_SUCCESS) << ligerdsl_last_error();
  EXPECT_EQ(source.taken, 2);
  EXPECT_EQ(source.given, 2);
  ASSERT_EQ(call(context_, 1), LIGERDSL_SUCCESS) << ligerdsl_last_error();
  EXPECT_EQ(call(context_, 3), LIGERDSL_CAPTURE_UNSAFE);
}

// A capture forbids the choice of cuBLASLt algorithms. The query of the workspace size has already
// chosen them.
class CaptureLinear : public Capture {
 protected:
  static constexpr int64_t kRows = 30, kCols = 8, kClasses = 520;

  CaptureLinear() {
    desc_.n_classes = kClasses;
    desc_.n_cols = kCols;
    desc_.dtype = desc_.d_weight_dtype = LIGERDSL_F32;
    desc_.label_dtype = LIGERDSL_I64;
    desc_.with_d_x = 1;
  }
  void check(int64_t launches) {
    FusedLinearCrossEntropyArgs args = fused_linear_cross_entropy_args();
    args.x = x_;
    args.weight = weight_;
    args.labels = labels_;
    args.loss = loss_;
    args.d_x = d_x_;
    args.d_weight = d_weight_;
    expect_launches(launches, FusedLinearCrossEntropyPlan(context_, desc_), args, kRows);
  }

  FusedLinearCrossEntropyDesc desc_ = fused_linear_cross_entropy_desc();
  Remote x_ = f32({kRows, kCols}), weight_ = f32({kClasses, kCols}), labels_ = i64({kRows}),
         loss_ = f32({1}), d_x_ = f32({kRows, kCols}), d_weight_ = f32({kClasses, kCols});
};

TEST_F(CaptureLinear, OneChunk) {
  desc_.chunk_rows = kRows;
  check(4);  // count, rows, compaction of x, sum of losses
}

TEST_F(CaptureLinear, ChunksOfRows) {
  desc_.chunk_rows = 8;
  check(2 + 4 * 2);  // count and sum; per chunk: rows and compaction of x
}

TEST_F(CaptureLinear, BackwardFromLse) {
  FusedLinearCrossEntropyBackwardDesc desc = fused_linear_cross_entropy_backward_desc();
  desc.n_classes = kClasses;
  desc.n_cols = kCols;
  desc.dtype = desc.d_weight_dtype = LIGERDSL_F32;
  desc.label_dtype = LIGERDSL_I64;
  desc.with_d_x = 1;
  desc.chunk_rows = 8;
  const Remote lse = f32({kRows}), d_loss = f32({1});
  FusedLinearCrossEntropyBackwardArgs args = fused_linear_cross_entropy_backward_args();
  args.x = x_;
  args.weight = weight_;
  args.labels = labels_;
  args.lse = lse;
  args.d_loss = d_loss;
  args.d_x = d_x_;
  args.d_weight = d_weight_;
  expect_launches(1 + 4 * 2, FusedLinearCrossEntropyBackwardPlan(context_, desc), args,
                  kRows);  // count; two launches per chunk
}

// One launch rounds the weight to bf16.
TEST_F(CaptureLinear, WeightInF32) {
  desc_.dtype = LIGERDSL_BF16;
  desc_.weight_dtype = LIGERDSL_F32;
  desc_.chunk_rows = 8;
  x_ = Remote(context_, LIGERDSL_BF16, {kRows, kCols});
  d_x_ = Remote(context_, LIGERDSL_BF16, {kRows, kCols});
  check(1 + 2 + 4 * 2);
}

// Each of the two chunks rounds the weight twice, in five blocks of 128 classes. Its other launches
// are the rows, the compaction of x, and the rounding of d_x.
TEST_F(CaptureLinear, WeightInF32ByBlocks) {
  desc_.dtype = LIGERDSL_BF16;
  desc_.weight_dtype = LIGERDSL_F32;
  desc_.chunk_rows = 15;
  desc_.max_workspace_bytes =
      (32 << 20) + 24000;  // logits of 15 rows: 17280 bytes; the whole weight: 8320
  x_ = Remote(context_, LIGERDSL_BF16, {kRows, kCols});
  d_x_ = Remote(context_, LIGERDSL_BF16, {kRows, kCols});
  check(2 + 2 * (5 + 1 + 5 + 1 + 1));
}

TEST_F(CaptureLinear, BlocksOfTheVocabulary) {
  desc_.max_workspace_bytes = (32 << 20) + 24000;
  // A row of logits has 2176 bytes, so a chunk would have only ten rows. Instead, five blocks of 30
  // rows and 128 classes have 15360 bytes each.
  check(2 + 3 + 5 + 1);  // the last launch compacts x, once for all blocks
}

TEST_F(Capture, LinearJsd) {
  const Remote x = f32({30, 8}), weight = f32({520, 8}), target_x = f32({30, 4}),
               target_weight = f32({520, 4}), loss = f32({1}), d_x = f32({30, 8}),
               d_weight = f32({520, 8}), labels = i64({30});
  FusedLinearJsdDesc desc = fused_linear_jsd_desc();
  desc.n_classes = 520;
  desc.n_cols = 8;
  desc.n_target_cols = 4;
  desc.dtype = desc.d_weight_dtype = LIGERDSL_F32;
  desc.label_dtype = LIGERDSL_I64;
  desc.with_d_x = 1;
  desc.chunk_rows = 8;
  FusedLinearJsdArgs args = fused_linear_jsd_args();
  args.x = x;
  args.weight = weight;
  args.target_x = target_x;
  args.target_weight = target_weight;
  args.labels = labels;
  args.loss = loss;
  args.d_x = d_x;
  args.d_weight = d_weight;
  expect_launches(2 + 4 * 2, FusedLinearJsdPlan(context_, desc), args,
                  30);  // count and sum; two launches per chunk
}

}  // namespace
}  // namespace ligerdsl::test::capture_test
