// The C ABI on a fake GPU (tests/runtime/fake_cuda.cpp). Kernels are compiled and loaded but
// compute nothing. The fake counts every driver call and can make any of them fail.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <ligerdsl/launch.hpp>
#include <thread>

#include "allocation_counter.h"
#include "support.h"
#include "tests/runtime/fake_cuda.h"

namespace ligerdsl::test::fake_gpu_test {
namespace {

// A static initialiser sets the variables, because the library reads its environment only once. The
// cache makes the second load of a kernel fast.
const std::string& cache_folder() {
  static const std::string folder = [] {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "ligerdsl-fake-gpu-XXXXXX").string();
    return std::string(mkdtemp(pattern.data()));
  }();
  return folder;
}
const bool environment_set = setenv("LIGERDSL_LIBCUDA", FAKE_CUDA, 1) == 0 &&
                             setenv("LIGERDSL_CACHE_DIR", cache_folder().c_str(), 1) == 0;

class RemoveCache : public testing::Environment {
  void TearDown() override { std::filesystem::remove_all(cache_folder()); }
};
const auto* remove_cache = testing::AddGlobalTestEnvironment(new RemoveCache);

const FakeCudaControl& fake() {
  static const auto* control = static_cast<const FakeCudaControl*>(
      dlsym(dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL), "fake_cuda_control"));
  return *control;
}

class FakeGpu : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(environment_set);
    fake().reset();
    fake().set_driver(13000, 0, 2);  // two devices; the library queries their number once
  }
  void TearDown() override { fake().reset(); }
};

// Device memory for one tensor.
struct OnDevice {
  OnDevice(const Context& context, int32_t dtype, std::vector<int64_t> shape, size_t offset = 0)
      : buffer(context, size_t{1} << 20),
        tensor(static_cast<char*>(buffer.data()) + offset, context.device(), dtype,
               std::move(shape)) {}
  operator const ligerdsl_tensor_t*() const { return tensor; }
  Buffer buffer;
  Tensor tensor;
};

// One plan of each kind: one launch, several launches, in place, with workspace, with a list of
// tensors.
class Calls {
 public:
  explicit Calls(const Context& context) : context_(context) {
    norm();
    gradient();
    loss();
    gated();
    list();
  }
  void run() const {
    for (const auto& call : calls_) call();
  }

 private:
  OnDevice& make(int32_t dtype, std::vector<int64_t> shape) {
    tensors_.push_back(std::make_unique<OnDevice>(context_, dtype, std::move(shape)));
    return *tensors_.back();
  }
  template <class Plan, class Desc, class Args>
  void add(const Desc& desc, const Args& args, int64_t rows) {
    auto plan = std::make_shared<Plan>(context_, desc);
    auto workspace = std::make_shared<Buffer>(context_, plan->workspace_bytes(rows));
    calls_.push_back([=] { (*plan)(args, workspace->data(), workspace->bytes()); });
  }
  void norm() {
    RmsNormForwardDesc desc = rms_norm_forward_desc();
    desc.n_cols = 64;
    desc.dtype = desc.weight_dtype = LIGERDSL_BF16;
    desc.with_rstd = 1;
    RmsNormForwardArgs args = rms_norm_forward_args();
    args.x = make(LIGERDSL_BF16, {16, 64});
    args.weight = make(LIGERDSL_BF16, {64});
    args.y = make(LIGERDSL_BF16, {16, 64});
    args.rstd = make(LIGERDSL_F32, {16});
    add<RmsNormForwardPlan>(desc, args, 16);
  }
  void gradient() {
    RmsNormBackwardDesc desc = rms_norm_backward_desc();
    desc.n_cols = 64;
    desc.dtype = desc.weight_dtype = desc.d_weight_dtype = LIGERDSL_F32;
    RmsNormBackwardArgs args = rms_norm_backward_args();
    args.d_y = make(LIGERDSL_F32, {16, 64});
    args.x = make(LIGERDSL_F32, {16, 64});
    args.weight = make(LIGERDSL_F32, {64});
    args.rstd = make(LIGERDSL_F32, {16});
    args.d_x = make(LIGERDSL_F32, {16, 64});
    args.d_weight = make(LIGERDSL_F32, {64});
    add<RmsNormBackwardPlan>(desc, args, 16);
  }
  void loss() {
    CrossEntropyDesc desc = cross_entropy_desc();
    desc.n_classes = 100;
    desc.dtype = LIGERDSL_BF16;
    desc.label_dtype = LIGERDSL_I64;
    desc.with_d_logits = desc.in_place = 1;
    CrossEntropyArgs args = cross_entropy_args();
    args.logits = args.d_logits = make(LIGERDSL_BF16, {16, 100});
    args.labels = make(LIGERDSL_I64, {16});
    args.loss = make(LIGERDSL_F32, {1});
    add<CrossEntropyPlan>(desc, args, 16);
  }
  void gated() {
    SwigluForwardDesc desc = swiglu_forward_desc();
    desc.n_cols = 33;
    desc.dtype = LIGERDSL_F16;
    desc.fused = 1;
    SwigluForwardArgs args = swiglu_forward_args();
    args.gate_up = make(LIGERDSL_F16, {4, 66});
    args.out = make(LIGERDSL_F16, {4, 33});
    add<SwigluForwardPlan>(desc, args, 4);
  }
  void list() {
    GlobalNormDesc desc = global_norm_desc();
    desc.dtype = LIGERDSL_F32;
    GlobalNormArgs args = global_norm_args();
    args.tensors = &make(LIGERDSL_F32, {1000}).tensor.raw();
    args.n_tensors = 1;
    args.norm = make(LIGERDSL_F32, {1});
    add<GlobalNormPlan>(desc, args, 1000 + 65536);
  }

  const Context& context_;
  std::vector<std::unique_ptr<OnDevice>> tensors_;
  std::vector<std::function<void()>> calls_;
};

// A launch takes four driver calls: get the current context, push the device's, launch, pop. An
// allocation, copy or synchronisation would add one.
TEST_F(FakeGpu, ExecuteOnlyLaunches) {
  const Context context = Context::cuda();
  const Calls calls(context);
  calls.run();
  const int64_t driver_calls = fake().call_count(), launches = fake().calls_of("cuLaunchKernelEx");
  const int64_t allocations = test::allocations();
  calls.run();
  EXPECT_EQ(test::allocations(), allocations);
  const int64_t launched = fake().calls_of("cuLaunchKernelEx") - launches;
  EXPECT_GE(launched, 7);
  EXPECT_EQ(fake().call_count() - driver_calls, 4 * launched);
  EXPECT_EQ(fake().current_context(), nullptr);
}

TEST_F(FakeGpu, CaptureAllowsExecuteButNotPlanning) {
  const Context context = Context::cuda();
  const Calls calls(context);
  OnDevice a(context, LIGERDSL_F32, {64}), b(context, LIGERDSL_F32, {64}),
      out(context, LIGERDSL_F32, {64});
  VectorAddArgs args = vector_add_args();
  args.a = a;
  args.b = b;
  args.out = out;
  const VectorAddDesc desc = vector_add_desc();
  auto* stream = reinterpret_cast<ligerdsl_stream_t>(uintptr_t{0x50});
  fake().set_capturing(true);
  calls.run();
  // The one-call form has no plan yet, so it would have to compile a kernel.
  expect_failure(ligerdsl_vector_add(context.get(), &desc, &args, stream), LIGERDSL_CAPTURE_UNSAFE,
                 {"vector_add", "being captured", "once before"});
  fake().set_capturing(false);
  ASSERT_EQ(ligerdsl_vector_add(context.get(), &desc, &args, stream), LIGERDSL_SUCCESS)
      << ligerdsl_last_error();
  fake().set_capturing(true);
  EXPECT_EQ(ligerdsl_vector_add(context.get(), &desc, &args, stream), LIGERDSL_SUCCESS)
      << ligerdsl_last_error();
  { const Context destroyed_while_capturing = Context::cuda(); }
}

TEST_F(FakeGpu, ExecuteRunsOnThreadWithoutContext) {
  const Context context = Context::cuda();
  const Calls calls(context);
  std::thread([&] {
    EXPECT_EQ(fake().current_context(), nullptr);
    calls.run();
    EXPECT_EQ(fake().current_context(), nullptr);
    int other = 0;
    fake().push_foreign_context(&other);
    calls.run();
    EXPECT_EQ(fake().current_context(), &other);
    fake().pop_context();
  }).join();
}

TEST_F(FakeGpu, TwoDevicesLaunchSeparately) {
  const Context first = Context::cuda(0), second = Context::cuda(1);
  const Calls here(first), there(second);
  here.run();
  there.run();
  EXPECT_EQ(fake().current_context(), nullptr);
  OnDevice a(first, LIGERDSL_F32, {64}), b(second, LIGERDSL_F32, {64}),
      out(first, LIGERDSL_F32, {64});
  VectorAddArgs args = vector_add_args();
  args.a = a;
  args.b = b;
  args.out = out;
  const VectorAddDesc desc = vector_add_desc();
  expect_failure(ligerdsl_vector_add(first.get(), &desc, &args, nullptr), LIGERDSL_INVALID_DEVICE,
                 {"`b`", "cuda:0, the context's device", "got one on cuda:1"});
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  config.device = {LIGERDSL_CUDA, 2};
  ligerdsl_context_t none = nullptr;
  expect_failure(ligerdsl_context_create(&config, &none), LIGERDSL_INVALID_DEVICE, {"2"});
}

TEST_F(FakeGpu, ForeignErrorIsReportedAsSticky) {
  const Context context = Context::cuda();
  const Calls calls(context);
  fake().set_sticky(700);  // CUDA_ERROR_ILLEGAL_ADDRESS
  try {
    calls.run();
    FAIL() << "no error";
  } catch (const StatusError& error) {
    EXPECT_EQ(error.status(), LIGERDSL_STICKY_DEVICE_ERROR);
    EXPECT_NE(std::string(error.what()).find("earlier"), std::string::npos) << error.what();
  }
  expect_failure(ligerdsl_context_check(context.get(), nullptr), LIGERDSL_STICKY_DEVICE_ERROR,
                 {"ILLEGAL_ADDRESS"});
}

TEST_F(FakeGpu, ForkedChildGetsAnErrorWithRemedy) {
  const Context context = Context::cuda();
  const Calls calls(context);
  const pid_t child = fork();
  if (child == 0) {
    int answer = 2;
    for (const std::function<void()>& call :
         {std::function([&] { calls.run(); }), {[&] { context.poll_labels(); }}}) {
      try {
        call();
        _exit(1);
      } catch (const StatusError& error) {
        if (error.status() == LIGERDSL_FORKED_PROCESS) --answer;
      }
    }
    _exit(answer);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Returns the functions that `call` launches.
std::vector<const void*> launched_by(const std::function<void()>& call) {
  std::vector<const void*> functions(64);
  fake().launched(functions.data(), 64);
  call();
  functions.resize(static_cast<size_t>(fake().launched(functions.data(), 64)));
  EXPECT_FALSE(functions.empty());
  return functions;
}

// A tensor of 64-element rows with `gap` elements between them. It starts `offset` bytes after a
// multiple of 256.
struct RowsOnDevice {
  RowsOnDevice(const Context& context, int64_t n, int64_t gap = 0, size_t offset = 0)
      : buffer(context, size_t{4} << 20),
        tensor(static_cast<char*>(buffer.data()) + offset, context.device(), LIGERDSL_BF16, {n, 64},
               {64 + gap, 1}) {}
  operator const ligerdsl_tensor_t*() const { return tensor; }
  Buffer buffer;
  Tensor tensor;
};

// A call with aligned arguments uses the aligned kernels, whatever its row count. A call with rows
// that are not aligned to 16 bytes uses the generic kernels.
TEST_F(FakeGpu, AnyRowCountUsesAlignedKernels) {
  const Context context = Context::cuda();
  const OnDevice weight(context, LIGERDSL_BF16, {64}), d_weight(context, LIGERDSL_BF16, {64});

  RmsNormForwardDesc forward_desc = rms_norm_forward_desc();
  forward_desc.n_cols = 64;
  forward_desc.dtype = forward_desc.weight_dtype = LIGERDSL_BF16;
  forward_desc.with_rstd = 1;
  const RmsNormForwardPlan forward(context, forward_desc);
  const auto norm = [&](int64_t n, int64_t gap = 0, size_t offset = 0) {
    const RowsOnDevice x(context, n, gap, offset), y(context, n);
    const OnDevice rstd(context, LIGERDSL_F32, {n});
    RmsNormForwardArgs args = rms_norm_forward_args();
    args.x = x;
    args.weight = weight;
    args.y = y;
    args.rstd = rstd;
    return launched_by([&] { forward(args); });
  };

  RmsNormBackwardDesc backward_desc = rms_norm_backward_desc();
  backward_desc.n_cols = 64;
  backward_desc.dtype = backward_desc.weight_dtype = backward_desc.d_weight_dtype = LIGERDSL_BF16;
  const RmsNormBackwardPlan backward(context, backward_desc);
  const auto gradient = [&](int64_t n, int64_t gap = 0, size_t offset = 0) {
    const RowsOnDevice x(context, n, gap, offset), d_y(context, n), d_x(context, n);
    const OnDevice rstd(context, LIGERDSL_F32, {n});
    const Buffer workspace(context, backward.workspace_bytes(n));
    RmsNormBackwardArgs args = rms_norm_backward_args();
    args.x = x;
    args.d_y = d_y;
    args.d_x = d_x;
    args.weight = weight;
    args.rstd = rstd;
    args.d_weight = d_weight;
    return launched_by([&] { backward(args, workspace.data(), workspace.bytes()); });
  };

  CrossEntropyDesc loss_desc = cross_entropy_desc();
  loss_desc.n_classes = 64;
  loss_desc.dtype = LIGERDSL_BF16;
  loss_desc.label_dtype = LIGERDSL_I64;
  loss_desc.reduction = LIGERDSL_REDUCTION_NONE;
  const CrossEntropyPlan loss_plan(context, loss_desc);
  const auto loss_with = [&](int64_t n, int64_t gap, size_t offset, size_t label_offset) {
    const RowsOnDevice logits(context, n, gap, offset);
    const OnDevice labels(context, LIGERDSL_I64, {n}, label_offset),
        loss(context, LIGERDSL_F32, {n});
    const Buffer workspace(context, loss_plan.workspace_bytes(n));
    CrossEntropyArgs args = cross_entropy_args();
    args.logits = logits;
    args.labels = labels;
    args.loss = loss;
    return launched_by([&] { loss_plan(args, workspace.data(), workspace.bytes()); });
  };
  const auto loss = [&](int64_t n, int64_t gap = 0, size_t offset = 0) {
    return loss_with(n, gap, offset, 0);
  };

  const auto check = [](const char* name, const auto& call) {
    SCOPED_TRACE(name);
    const std::vector<const void*> aligned = call(8192);
    for (const int64_t n : {1, 5, 8191}) EXPECT_EQ(call(n), aligned) << n;
    EXPECT_EQ(call(8191, 8), aligned);
    EXPECT_NE(call(8191, 4)[0], aligned[0]) << "rows of 136 bytes";
    EXPECT_NE(call(8192, 0, 8)[0], aligned[0]) << "a pointer to the middle of a vector";
  };
  check("rms_norm_forward", norm);
  check("rms_norm_backward", gradient);
  check("cross_entropy", loss);
  EXPECT_EQ(loss_with(8191, 0, 0, 8), loss(8192)) << "labels from the second one on";
}

struct WidthMeta {
  template <class V>
  void visit(V&&) {}
};

// y = 1, with a tile width and a number of warps that depend on the recorded device.
const Kernel<WidthMeta> width_kernel{
    .name = "width",
    .description = "y = 1",
    .build =
        [](KernelBuilder& k, const WidthMeta&) {
          const int64_t width = k.target().threads_per_sm / 4;
          View y = k.view("y", f32, {dyn});
          y.partition({width}).store({k.program_id(0)}, k.ones({width}, f32));
        },
    .launch =
        [](const WidthMeta&, const LaunchArguments& a) {
          return Launch{.grid = {ceil_div(a.dim("y", 0), a.target().threads_per_sm / 4)},
                        .num_warps = a.target().threads_per_sm == 2048 ? 8 : 4};
        }};

// Two GPUs of different kinds in one process: target, recorded kernel and launch match each device.
TEST_F(FakeGpu, KernelsAreRecordedForTheirContext) {
  const Context hopper = Context::cuda(0);
  fake().set_capability(12, 0);
  const Context blackwell = Context::cuda(1);
  EXPECT_STREQ(hopper.target().name, "sm_90a");
  EXPECT_STREQ(blackwell.target().name, "sm_120");
  EXPECT_EQ(blackwell.target().sms, 132) << "the driver's, not the table's 188";
  EXPECT_EQ(blackwell.target().l2_bytes, 1 << 20) << "the driver's, not the table's";
  EXPECT_EQ(blackwell.target().shared_per_cta, 99 * 1024);
  KernelLauncher on_hopper(hopper, width_kernel), on_blackwell(blackwell, width_kernel);
  const auto launched = [](auto& launcher, const Context& context) {
    const OnDevice y(context, LIGERDSL_F32, {1536});
    launcher({}, {{"y", y.tensor}});
    FakeCudaControl::Launch launch{};
    EXPECT_TRUE(fake().last_launch(&launch));
    return std::pair(launch.grid[0], launch.block);
  };
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(launched(on_hopper, hopper), std::pair(3u, 256u));
    EXPECT_EQ(launched(on_blackwell, blackwell), std::pair(4u, 128u));
  }
}

// For every k, the k-th driver call fails while a context and its plans are made, used and
// destroyed.
TEST_F(FakeGpu, AnyDriverCallMayFail) {
  const auto everything = [] {
    const Context context = Context::cuda();
    const Calls calls(context);
    calls.run();
    if (ligerdsl_context_check(context.get(), nullptr) != LIGERDSL_SUCCESS)
      throw StatusError(LIGERDSL_OUT_OF_DEVICE_MEMORY);
  };
  everything();
  const int64_t calls = fake().call_count();
  ASSERT_GT(calls, 100);
  for (int64_t k = 1; k <= calls; ++k) {
    fake().reset();
    fake().fail_call(k, 2);  // out of memory
    bool failed = false;
    try {
      everything();
    } catch (const StatusError& error) {
      failed = true;
      EXPECT_TRUE(error.status() == LIGERDSL_OUT_OF_DEVICE_MEMORY ||
                  error.status() == LIGERDSL_NO_DEVICE)
          << k << ": " << error.what();
    }
    // A failed release reports no error and leaks at most its own object.
    EXPECT_LE(fake().live_objects(), failed ? 0 : 1) << k;
  }
  fake().reset();
  everything();
  EXPECT_EQ(fake().live_objects(), 0);
}

}  // namespace
}  // namespace ligerdsl::test::fake_gpu_test
