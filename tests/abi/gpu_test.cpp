// The C ABI on a real GPU: graphs, streams, contexts, unaligned memory, labels. Skipped without a
// driver.
#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "ligerdsl/dsl.h"
#include "support.h"

namespace ligerdsl::test::gpu_test {
namespace {

// Driver functions that a caller of the library would use itself.
struct CudaDriver {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  template <class F>
  F* get(const char* name) const {
    return reinterpret_cast<F*>(dlsym(library, name));
  }
};

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
    config.device = {LIGERDSL_CUDA, 0};
    ligerdsl_context_t probe = nullptr;
    const ligerdsl_status_t status = ligerdsl_context_create(&config, &probe);
    ligerdsl_context_destroy(probe);
    if (status == LIGERDSL_NO_DEVICE) GTEST_SKIP() << ligerdsl_last_error();
    ASSERT_EQ(status, LIGERDSL_SUCCESS) << ligerdsl_last_error();
    context_ = std::make_unique<Context>(config);
    check(ligerdsl_stream_create(context_->get(), &stream_));
  }
  void TearDown() override {
    if (!stream_) return;
    EXPECT_EQ(ligerdsl_stream_destroy(context_->get(), stream_), LIGERDSL_SUCCESS);
  }

  // Returns device memory that holds `values` after `offset` elements.
  Buffer upload(const std::vector<float>& values, size_t offset = 0) {
    Buffer buffer(*context_, (values.size() + offset) * 4);
    context_->copy(static_cast<float*>(buffer.data()) + offset, values.data(), values.size() * 4);
    context_->synchronize();
    return buffer;
  }
  std::vector<float> download(const void* data, size_t n) {
    std::vector<float> values(n);
    context_->synchronize(stream_);
    context_->copy(values.data(), data, n * 4);
    context_->synchronize();
    return values;
  }
  Tensor floats(void* data, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
    return Tensor(data, context_->device(), LIGERDSL_F32, std::move(shape), std::move(strides));
  }

  std::unique_ptr<Context> context_;
  ligerdsl_stream_t stream_ = nullptr;
  CudaDriver cuda_;
};

std::vector<float> numbers(size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = std::sin(static_cast<float>(i) * 0.37f) * 2.0f;
  return values;
}

// d_x and d_weight of a norm have the same bits in two eager calls and a replayed graph.
TEST_F(Gpu, GraphReplayEqualsEager) {
  constexpr int64_t kRows = 300, kCols = 1000;
  const Buffer x = upload(numbers(kRows * kCols)), d_y = upload(numbers(kRows * kCols + 7)),
               weight = upload(numbers(kCols));
  const Buffer rstd = upload(std::vector<float>(kRows, 0.7f)), d_x(*context_, kRows * kCols * 4),
               d_w(*context_, kCols * 4);
  RmsNormBackwardDesc desc = rms_norm_backward_desc();
  desc.n_cols = kCols;
  desc.dtype = desc.weight_dtype = desc.d_weight_dtype = LIGERDSL_F32;
  const RmsNormBackwardPlan plan(*context_, desc);
  const Buffer workspace(*context_, plan.workspace_bytes(kRows));
  const Tensor tx = floats(x.data(), {kRows, kCols}), tdy = floats(d_y.data(), {kRows, kCols}),
               tw = floats(weight.data(), {kCols});
  const Tensor tr = floats(rstd.data(), {kRows}), tdx = floats(d_x.data(), {kRows, kCols}),
               tdw = floats(d_w.data(), {kCols});
  RmsNormBackwardArgs args = rms_norm_backward_args();
  args.x = tx;
  args.d_y = tdy;
  args.weight = tw;
  args.rstd = tr;
  args.d_x = tdx;
  args.d_weight = tdw;
  const auto run = [&] { plan(args, workspace.data(), workspace.bytes(), stream_); };
  const auto results = [&] {
    std::vector<float> all = download(d_x.data(), kRows * kCols);
    const std::vector<float> tail = download(d_w.data(), kCols);
    all.insert(all.end(), tail.begin(), tail.end());
    return all;
  };
  run();
  const std::vector<float> eager = results();
  run();
  EXPECT_EQ(std::memcmp(eager.data(), results().data(), eager.size() * 4), 0)
      << "two eager runs differ";

  void *graph = nullptr, *executable = nullptr, *primary = nullptr;
  ASSERT_EQ(cuda_.get<int(void**, int)>("cuDevicePrimaryCtxRetain")(&primary, 0), 0);
  ASSERT_EQ(cuda_.get<int(void*)>("cuCtxSetCurrent")(primary), 0);
  ASSERT_EQ(cuda_.get<int(void*, int)>("cuStreamBeginCapture_v2")(stream_, 0), 0);
  run();
  // A descriptor without a cached plan would need a compile, so the call is refused. The capture
  // stays valid.
  SoftmaxForwardArgs softmax = softmax_forward_args();
  softmax.x = tx;
  softmax.y = tdx;
  const SoftmaxForwardDesc softmax_desc = softmax_forward_desc();
  expect_failure(ligerdsl_softmax_forward(context_->get(), &softmax_desc, &softmax, stream_),
                 LIGERDSL_CAPTURE_UNSAFE, {"captured"});
  ASSERT_EQ(cuda_.get<int(void*, void**)>("cuStreamEndCapture")(stream_, &graph), 0);
  ASSERT_EQ(cuda_.get<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(
                &executable, graph, 0),
            0);
  context_->fill(d_x.data(), 0xff, d_x.bytes(), stream_);
  context_->fill(d_w.data(), 0xff, d_w.bytes(), stream_);
  context_->fill(workspace.data(), 0xff, workspace.bytes(), stream_);
  ASSERT_EQ(cuda_.get<int(void*, void*)>("cuGraphLaunch")(executable, stream_), 0);
  EXPECT_EQ(std::memcmp(eager.data(), results().data(), eager.size() * 4), 0)
      << "the graph's replay differs";
  EXPECT_EQ(cuda_.get<int(void*)>("cuGraphExecDestroy")(executable), 0);
  EXPECT_EQ(cuda_.get<int(void*)>("cuGraphDestroy")(graph), 0);
  EXPECT_EQ(cuda_.get<int(void*)>("cuCtxSetCurrent")(nullptr), 0);
}

// A launch that breaks an author's assumption fails at its end and names the line. The next launch
// succeeds.
TEST_F(Gpu, ValidateChecksAssumptions) {
  KernelBuilder k("promising");
  int line = 0;
  {
    const View out = k.view("out", f32, {dyn});
    const Scalar row = k.program_id(0);
    line = __LINE__ + 1;
    assume(row < 5);
    out.store({row}, row.to(f32));
  }
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  config.device = {LIGERDSL_CUDA, 0};
  config.flags = LIGERDSL_CTX_VALIDATE;
  const Context checking(config);
  const std::string program = k.finish_bytes();
  const CompiledKernel kernel(checking, program);
  const Buffer out = upload(std::vector<float>(8, -1.0f));
  const Tensor tensor = floats(out.data(), {8});
  const auto launch = [&](int32_t programs) {
    ligerdsl_kernel_arg_t args[] = {KernelArg(tensor).raw()};
    const int32_t grid[3] = {programs, 1, 1};
    return ligerdsl_kernel_launch(kernel.get(), args, 1, grid, stream_);
  };
  const std::string place = "gpu_test.cpp:" + std::to_string(line) + ":";
  EXPECT_EQ(launch(5), LIGERDSL_SUCCESS) << ligerdsl_last_error();
  EXPECT_EQ(download(out.data(), 6), (std::vector<float>{0, 1, 2, 3, 4, -1}));
  expect_failure(launch(8), LIGERDSL_EXECUTION_FAILED,
                 {place.c_str(), "assume: the assumption", "LIGERDSL_VALIDATE"});
  EXPECT_EQ(launch(5), LIGERDSL_SUCCESS) << "it was reported already: " << ligerdsl_last_error();
}

// A thread without a current CUDA context has none after the call either.
TEST_F(Gpu, CallersContextIsLeftAlone) {
  const Buffer a = upload(numbers(1000)), out(*context_, 4000);
  std::thread([&] {
    const auto current = [&] {
      void* context = nullptr;
      EXPECT_EQ(cuda_.get<int(void**)>("cuCtxGetCurrent")(&context), 0);
      return context;
    };
    EXPECT_EQ(current(), nullptr);
    const Tensor ta = floats(a.data(), {1000}), tout = floats(out.data(), {1000});
    VectorAddArgs args = vector_add_args();
    args.a = args.b = ta;
    args.out = tout;
    vector_add(*context_, vector_add_desc(), args, stream_);
    EXPECT_EQ(current(), nullptr);
  }).join();
  EXPECT_EQ(download(out.data(), 1000)[3], 2 * numbers(1000)[3]);
}

// Unaligned addresses and strides give the same results as a CPU.
TEST_F(Gpu, UnalignedRows) {
  constexpr int64_t kRows = 37, kCols = 1000;
  const Context cpu = Context::cpu(2);
  for (const size_t offset : {0, 1, 3}) {
    for (const int64_t stride : {kCols, kCols + 1, kCols + 4}) {
      const std::vector<float> x = numbers(kRows * stride), weight = numbers(kCols);
      std::vector<float> y(kRows * stride, 9.0f), expected = y;
      const Buffer dx = upload(x, offset), dw = upload(weight, offset), dy = upload(y, offset);
      const auto run = [&](const Context& context, void* px, void* pw, void* py,
                           ligerdsl_stream_t stream) {
        const Tensor tx(px, context.device(), LIGERDSL_F32, {kRows, kCols}, {stride, 1});
        const Tensor tw(pw, context.device(), LIGERDSL_F32, {kCols});
        const Tensor ty(py, context.device(), LIGERDSL_F32, {kRows, kCols}, {stride, 1});
        RmsNormForwardArgs args = rms_norm_forward_args();
        args.x = tx;
        args.weight = tw;
        args.y = ty;
        rms_norm_forward(context, rms_norm_forward_desc(), args, stream);
      };
      const auto at = [&](const Buffer& buffer) {
        return static_cast<float*>(buffer.data()) + offset;
      };
      run(*context_, at(dx), at(dw), at(dy), stream_);
      run(cpu, const_cast<float*>(x.data()), const_cast<float*>(weight.data()), expected.data(),
          nullptr);
      y = download(at(dy), y.size());
      for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y[i], expected[i], 2e-5)
            << "element " << i << ", offset " << offset << ", stride " << stride;
      }
    }
  }
}

TEST_F(Gpu, LabelOutOfBounds) {
  const Buffer logits = upload(numbers(40)), loss(*context_, 4 * 4), labels(*context_, 4 * 8);
  const int64_t values[4] = {0, -100, 10, int64_t{1} << 40};
  context_->copy(labels.data(), values, sizeof values);
  const Tensor tx = floats(logits.data(), {4, 10}), tl = floats(loss.data(), {4});
  const Tensor ty(labels.data(), context_->device(), LIGERDSL_I64, {4});
  CrossEntropyDesc desc = cross_entropy_desc();
  desc.reduction = LIGERDSL_REDUCTION_NONE;
  CrossEntropyArgs args = cross_entropy_args();
  args.logits = tx;
  args.labels = ty;
  args.loss = tl;
  cross_entropy(*context_, desc, args, stream_);
  expect_failure(ligerdsl_context_check(context_->get(), stream_), LIGERDSL_INVALID_LABEL,
                 {"out of bounds", "row 2"});
  EXPECT_EQ(ligerdsl_context_check(context_->get(), stream_), LIGERDSL_SUCCESS);
  cross_entropy(*context_, desc, args, stream_);
  context_->synchronize(stream_);
  const auto fault = context_->poll_labels();
  ASSERT_TRUE(fault);
  EXPECT_STREQ(fault->operation, "cross_entropy");
  EXPECT_EQ(fault->row, 2);
  EXPECT_FALSE(context_->poll_labels());
  const std::vector<float> got = download(loss.data(), 4);
  EXPECT_TRUE(std::isfinite(got[0]));
  EXPECT_EQ(got[1], 0);
  EXPECT_TRUE(std::isnan(got[2]) && std::isnan(got[3]));
}

TEST_F(Gpu, HostTensorsAreRefused) {
  Owned host(LIGERDSL_F32, {8});
  VectorAddArgs args = vector_add_args();
  args.a = args.b = args.out = host;
  const VectorAddDesc desc = vector_add_desc();
  expect_failure(ligerdsl_vector_add(context_->get(), &desc, &args, stream_),
                 LIGERDSL_INVALID_DEVICE, {"expected a tensor on cuda:0, the context's device"});
}

}  // namespace
}  // namespace ligerdsl::test::gpu_test
