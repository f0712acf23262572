// Tests the runtime on a real GPU, with PTX written by hand.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "program/gpu_arch.h"
#include "runtime/cuda/cuda_module.h"
#include "runtime/cuda/driver.h"
#include "runtime/device/measure.h"
#include "support.h"

namespace ligerdsl::runtime {
namespace {

// out[i] = 3 * i + 1, where i is the program id. Slots: pointer to int64, count.
constexpr const char* kPtx = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry ligerdsl_fake(.param .u64 out, .param .u64 n)
{
  .reg .b32 %r<3>;
  .reg .b64 %d<6>;
  .reg .pred %p;
  mov.u32 %r0, %tid.x;
  setp.ne.u32 %p, %r0, 0;
  @%p ret;
  ld.param.u64 %d0, [out];
  mov.u32 %r1, %ctaid.x;
  cvt.u64.u32 %d1, %r1;
  mul.lo.u64 %d2, %d1, 3;
  add.u64 %d2, %d2, 1;
  shl.b64 %d3, %d1, 3;
  add.u64 %d4, %d0, %d3;
  st.global.u64 [%d4], %d2;
  ret;
}
)";

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      device = make();
    } catch (const Error& error) {
      if (error.status() != Status::no_device) throw;
      printf("[SKIP] %s\n", error.what());
      GTEST_SKIP();
    }
  }

  std::shared_ptr<Device> make() {
    DeviceConfig config;
    config.kind = DeviceKind::cuda;
    config.cache_dir = folder.path();
    config.compiler = test::fake_compiler();
    return Device::create(config);
  }

  test::TempFolder folder;
  std::shared_ptr<Device> device;
};

// Compares this GPU's row in the table of architectures with the attributes that the driver
// reports.
TEST_F(GpuTest, AttributesMatchTheTableOfArchitectures) {
  const std::shared_ptr<const Driver> driver = Driver::shared();
  const program::GpuArch* arch = program::find_gpu_arch(device->description().arch);
  ASSERT_TRUE(arch) << device->description().arch;
  const auto attribute = [&](cuda::DeviceAttribute which) {
    int value = 0;
    EXPECT_EQ(driver->api().device_attribute(&value, which, device->description().ordinal),
              cuda::success)
        << which;
    return value;
  };
  EXPECT_EQ(arch->capability / 10, attribute(cuda::compute_capability_major));
  EXPECT_LE(arch->capability % 10, attribute(cuda::compute_capability_minor));
  EXPECT_EQ(arch->shared_per_sm, attribute(cuda::max_shared_per_multiprocessor));
  EXPECT_EQ(arch->shared_per_cta, attribute(cuda::max_shared_per_block_optin));
  EXPECT_EQ(arch->shared_reserved, attribute(cuda::reserved_shared_per_block));
  EXPECT_EQ(arch->registers_per_sm, attribute(cuda::max_registers_per_multiprocessor));
  EXPECT_EQ(arch->threads_per_sm, attribute(cuda::max_threads_per_multiprocessor));
  EXPECT_EQ(arch->max_ctas_per_sm, attribute(cuda::max_blocks_per_multiprocessor));
  EXPECT_EQ(arch->max_cluster > 1, attribute(cuda::cluster_launch) != 0);
  EXPECT_LE(arch->first_ptx, driver->ptx_version());
  printf("%s: %d SMs (usually %d), %d bytes of L2 (usually %lld)\n",
         std::string(arch->name).c_str(), attribute(cuda::multiprocessor_count), arch->sms,
         attribute(cuda::l2_cache_size), static_cast<long long>(arch->l2_bytes));
}

TEST_F(GpuTest, RunsPtx) {
  auto kernel = device->load(kPtx, device->base_options());
  EXPECT_GT(kernel->resources().registers, 0);
  EXPECT_EQ(kernel->resources().spill_bytes, 0);
  constexpr int64_t n = 70000;
  std::vector<int64_t> host(n, -1);
  void* out = device->alloc(n * sizeof(int64_t));
  Stream stream = device->create_stream();
  const uint64_t slots[2] = {reinterpret_cast<uint64_t>(out), n};
  kernel->launch(slots, {n, 1, 1}, stream);
  device->copy(host.data(), out, n * sizeof(int64_t), stream);
  device->synchronize(stream);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(host[static_cast<size_t>(i)], 3 * i + 1);
  device->destroy_stream(stream);
  device->free(out);
}

TEST_F(GpuTest, LoadsFromDiskQuickly) {
  device->load(kPtx, device->base_options());
  auto second = make();
  LoadReport report;
  const auto begin = std::chrono::steady_clock::now();
  second->load(kPtx, second->base_options(), &report);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  printf("GPU load from the disk cache: %.3f ms\n", took.count());
  EXPECT_TRUE(report.cubin_from_disk);
  EXPECT_LE(took.count(), 2.0);
}

TEST_F(GpuTest, SyntaxErrorsContainTheAssemblersLog) {
  std::string broken = kPtx;
  broken.append("\n garbage;\n");
  const std::string text = test::expect_error(
      Status::compile_failed, [&] { device->load(broken, device->base_options()); });
  EXPECT_NE(text.find("line"), std::string::npos) << text;
}

// Returns the host time, in microseconds, of the same launch made directly through the driver API.
double raw_launch_us(Device& device, const PrimaryContext& context, const uint64_t* slots,
                     Stream stream) {
  const PrimaryContext::Scope scope(context);
  const cuda::Api& api = context.api();
  const Cubin cubin = assemble(context, kPtx);
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  context.driver().check(api.module_load(&module, cubin.image.data()), "load");
  context.driver().check(api.module_function(&function, module, "ligerdsl_fake"), "function");
  const cuda::LaunchConfig config{1, 1, 1, 128, 1, 1, 0, stream, nullptr, 0};
  size_t bytes = 16;
  void* extra[] = {cuda::launch_param_buffer_pointer, const_cast<uint64_t*>(slots),
                   cuda::launch_param_buffer_size, &bytes, cuda::launch_param_end};
  const double time =
      host_time_us(device, stream, 500, [&] { api.launch(&config, function, nullptr, extra); });
  api.module_unload(module);
  return time;
}

TEST_F(GpuTest, LaunchAddsLittleHostTime) {
  auto kernel = device->load(kPtx, device->base_options());
  void* out = device->alloc(4096);
  Stream stream = device->create_stream();
  const uint64_t slots[2] = {reinterpret_cast<uint64_t>(out), 1};
  const PrimaryContext context(Driver::shared(), 0);
  // Takes the minimum of several rounds: other programs on the host can only add time.
  double added = 1e9, added_with_context = 1e9;
  for (int round = 0; round < 7; ++round) {
    const double raw = raw_launch_us(*device, context, slots, stream);
    auto launch = [&] { kernel->launch(slots, {1, 1, 1}, stream); };
    const double foreign = host_time_us(*device, stream, 500, launch);
    const PrimaryContext::Scope scope(context);
    const double current = host_time_us(*device, stream, 500, launch);
    printf("launch: driver alone %.2f us, ours %.2f us, ours without a current context %.2f us\n",
           raw, current, foreign);
    added = std::min(added, current - raw);
    added_with_context = std::min(added_with_context, foreign - raw);
  }
  EXPECT_LE(added, 0.5);
  EXPECT_LE(added_with_context, 0.5);
  device->destroy_stream(stream);
  device->free(out);
}

TEST_F(GpuTest, LoadDuringACaptureKeepsItValid) {
  auto api = [](const char* name) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name); };
  const auto begin = reinterpret_cast<int (*)(Stream, int)>(api("cuStreamBeginCapture_v2"));
  const auto end = reinterpret_cast<int (*)(Stream, void**)>(api("cuStreamEndCapture"));
  auto kernel = device->load(kPtx, device->base_options());
  void* out = device->alloc(4096);
  const uint64_t slots[2] = {reinterpret_cast<uint64_t>(out), 1};
  PrimaryContext context(Driver::shared(), 0);
  PrimaryContext::Scope scope(context);
  Stream stream = device->create_stream();
  EXPECT_FALSE(device->capturing(stream));
  ASSERT_EQ(begin(stream, 0), 0);
  EXPECT_TRUE(device->capturing(stream));
  kernel->launch(slots, {1, 1, 1}, stream);
  std::string other = kPtx;  // not in any cache, so it is compiled
  other.push_back('\n');
  device->load(other, device->base_options());
  device->free(device->alloc(1 << 20));
  void* graph = nullptr;
  EXPECT_EQ(end(stream, &graph), 0);
  EXPECT_NE(graph, nullptr);
  device->destroy_stream(stream);
  device->free(out);
}

TEST_F(GpuTest, MeasuresACopy) {
  const double gbps = copy_bandwidth_gbps(*device, int64_t{1} << 30);
  printf("copy of 1 GiB: %.0f GB/s\n", gbps);
  EXPECT_GT(gbps, 10);
}

}  // namespace
}  // namespace ligerdsl::runtime
