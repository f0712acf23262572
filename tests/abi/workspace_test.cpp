// Tests the one-call form with workspace from the caller's allocator, and the counters of calls.
#include <cstdlib>
#include <map>

#include "support.h"

namespace ligerdsl::test::workspace_test {
namespace {

constexpr int64_t kRows = 16, kCols = 64;

// Allocates memory and records it.
struct Source {
  std::map<void*, size_t> live;
  int given = 0;
  bool exhausted = false;
  size_t shift = 0;  // offset from the requested alignment
  ligerdsl_stream_t stream = nullptr;

  Context context() {
    ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
    config.num_threads = 2;
    config.user = this;
    config.workspace_alloc = [](void* user, size_t bytes, size_t align,
                                ligerdsl_stream_t on) -> void* {
      auto& source = *static_cast<Source*>(user);
      EXPECT_EQ(align & (align - 1), 0u);
      EXPECT_GT(bytes, 0u);
      if (source.exhausted) return nullptr;
      source.stream = on;
      auto* memory =
          static_cast<char*>(std::aligned_alloc(align, (bytes + 2 * align) / align * align));
      source.live[memory + source.shift] = bytes;
      ++source.given;
      return memory + source.shift;
    };
    config.workspace_free = [](void* user, void* memory, ligerdsl_stream_t on) {
      auto& source = *static_cast<Source*>(user);
      EXPECT_EQ(source.live.erase(memory), 1u) << "memory was freed that was not allocated";
      EXPECT_EQ(source.stream, on);
      std::free(static_cast<char*>(memory) - source.shift);
    };
    return Context(config);
  }
};

// The backward pass of a norm, whose partial sums need workspace.
struct Backward {
  Owned x{LIGERDSL_F32, {kRows, kCols}}, d_y{LIGERDSL_F32, {kRows, kCols}},
      d_x{LIGERDSL_F32, {kRows, kCols}}, weight{LIGERDSL_F32, {kCols}}, rstd{LIGERDSL_F32, {kRows}},
      d_weight{LIGERDSL_F32, {kCols}};
  RmsNormBackwardDesc desc = rms_norm_backward_desc();
  RmsNormBackwardArgs args = rms_norm_backward_args();

  Backward() {
    for (int64_t i = 0; i < kRows * kCols; ++i) x.floats()[i] = 1, d_y.floats()[i] = 0.5f;
    for (int64_t i = 0; i < kRows; ++i) rstd.floats()[i] = 1;
    for (int64_t i = 0; i < kCols; ++i) weight.floats()[i] = 1;
    desc.d_weight_dtype = LIGERDSL_F32;
    args.d_y = d_y;
    args.x = x;
    args.weight = weight;
    args.rstd = rstd;
    args.d_x = d_x;
    args.d_weight = d_weight;
  }
  ligerdsl_status_t operator()(const Context& context) {
    return ligerdsl_rms_norm_backward(context.get(), &desc, &args, nullptr);
  }
};

TEST(Workspace, ComesFromCallerAndIsReturned) {
  Source source;
  const Context context = source.context();
  Backward backward;
  for (int call = 1; call <= 3; ++call) {
    ASSERT_EQ(backward(context), LIGERDSL_SUCCESS) << ligerdsl_last_error();
    EXPECT_EQ(source.given, call);
    EXPECT_TRUE(source.live.empty());
  }
  for (int64_t i = 0; i < kCols; ++i) EXPECT_EQ(backward.d_weight.floats()[i], 0.5f * kRows);
}

TEST(Workspace, ExhaustedMemoryIsAnError) {
  Source source;
  const Context context = source.context();
  Backward backward;
  source.exhausted = true;
  expect_failure(backward(context), LIGERDSL_OUT_OF_HOST_MEMORY,
                 {"rms_norm_backward", "workspace_alloc", "bytes"});
  source.exhausted = false;
  EXPECT_EQ(backward(context), LIGERDSL_SUCCESS) << ligerdsl_last_error();
  EXPECT_TRUE(source.live.empty());
}

TEST(Workspace, MisalignedMemoryIsRefusedAndReturned) {
  Source source;
  source.shift = 8;
  const Context context = source.context();
  Backward backward;
  expect_failure(backward(context), LIGERDSL_INVALID_MISALIGNED, {"workspace", "256"});
  EXPECT_EQ(source.given, 1);
  EXPECT_TRUE(source.live.empty());
}

TEST(Workspace, NeedsBothFunctionsOrNeither) {
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  config.workspace_free = [](void*, void*, ligerdsl_stream_t) {};
  ligerdsl_context_t context = nullptr;
  expect_failure(ligerdsl_context_create(&config, &context), LIGERDSL_INVALID_ARGUMENT,
                 {"workspace_alloc", "workspace_free", "both or neither"});
  EXPECT_EQ(context, nullptr);
}

TEST(Calls, AreCountedByOperation) {
  const Context context = Context::cpu(1);
  Backward backward;
  EXPECT_EQ(context.calls("rms_norm_backward"), 0);
  ASSERT_EQ(backward(context), LIGERDSL_SUCCESS);
  const RmsNormBackwardPlan plan(context, [] {
    RmsNormBackwardDesc desc = rms_norm_backward_desc();
    desc.n_cols = kCols;
    desc.dtype = desc.weight_dtype = desc.d_weight_dtype = LIGERDSL_F32;
    return desc;
  }());
  const Buffer workspace(context, plan.workspace_bytes(kRows));
  plan(backward.args, workspace.data(), workspace.bytes());
  EXPECT_EQ(context.calls("rms_norm_backward"), 2);
  backward.args.x = nullptr;
  EXPECT_EQ(backward(context), LIGERDSL_INVALID_NULL_POINTER);
  EXPECT_EQ(context.calls("rms_norm_backward"), 2);
  EXPECT_EQ(context.calls("rms_norm_forward"), 0);
  EXPECT_EQ(Context::cpu(1).calls("rms_norm_backward"), 0);
}

TEST(Calls, UnknownOperationIsAnError) {
  const Context context = Context::cpu(1);
  int64_t calls = -1;
  expect_failure(ligerdsl_context_calls(context.get(), "rms_norm", &calls),
                 LIGERDSL_INVALID_ARGUMENT, {"operation", "rms_norm"});
  EXPECT_EQ(calls, 0);
  expect_failure(ligerdsl_context_calls(context.get(), nullptr, &calls),
                 LIGERDSL_INVALID_NULL_POINTER, {"operation"});
  expect_failure(ligerdsl_context_calls(context.get(), "rms_norm_forward", nullptr),
                 LIGERDSL_INVALID_NULL_POINTER, {"calls"});
}

}  // namespace
}  // namespace ligerdsl::test::workspace_test
