// Tests GPU devices on the fake driver: loading, launching, memory and faults.
#include <cstring>

#include "program/remarks.h"
#include "runtime/cache/disk_cache.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/tensor_map.h"
#include "runtime/device/measure.h"
#include "runtime/kernel/resource_remarks.h"
#include "support.h"
#include "tests/support/ptx/tensor_map.h"

namespace ligerdsl::runtime {
namespace {

using test::expect_error;
using test::fake_cuda;
using test::fake_gpu;

class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override { fake_cuda().reset(); }
  void TearDown() override { fake_cuda().reset(); }
  test::TempFolder folder;
};

TEST_F(CudaDeviceTest, DescribesTheFakeGpu) {
  auto device = fake_gpu(folder.path());
  EXPECT_EQ(device->description().name, "Fake GPU");
  EXPECT_EQ(device->description().arch, "sm_90a");
  const program::CompileOptions options = device->base_options();
  EXPECT_EQ(options.target, program::Target::nvptx);
  EXPECT_EQ(options.ptx_version, 90);
}

TEST_F(CudaDeviceTest, ResourceUseOfMachineCodeIsARemark) {
  auto device = fake_gpu(folder.path());
  const auto remarks = [&](int min_ctas_per_sm) {
    const auto kernel = device->load("plain", device->base_options());
    return resource_remarks(kernel->artifact(), kernel->resources(), min_ctas_per_sm);
  };
  EXPECT_TRUE(remarks(8).empty());
  device.reset();  // also unloads the kernel
  fake_cuda().set_function(255, 120, 3);
  device = fake_gpu(folder.path());
  EXPECT_EQ(remarks(3).size(), 1u);
  const auto both = remarks(4);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(to_string(both[0]).substr(0, 83),
            "remark: [resources] each thread spills 120 bytes to local memory in addition to its");
  EXPECT_EQ(both[0].id, "spills");
  EXPECT_EQ(both[1].id, "min-ctas-exceed-resources");
  EXPECT_NE(both[1].text.find("min_ctas_per_sm = 4 is not reached: an SM holds 3 CTAs of 128 "
                              "threads with 255 registers"),
            std::string::npos)
      << both[1].text;
  const std::string log =
      "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to "
      "insufficient register resources for the wgmma pipeline in the function 'k'";
  const auto serialised = resource_remarks({}, {.registers = 255, .log = log}, 0);
  ASSERT_EQ(serialised.size(), 1u);
  EXPECT_NE(serialised[0].text.find("wgmma: matmuls do not overlap"), std::string::npos);
  EXPECT_EQ(serialised[0].id, "wgmma-serialised");
  // No remark follows: the compiler has already reported that min_ctas_per_sm is not reached, and
  // the PTX declares local memory, so its bytes need not be spills.
  program::Artifact artifact;
  artifact.remarks = {make_remark(program::RemarkId::min_ctas_exceed_shared_memory,
                                  "min_ctas_per_sm = 4 is not reached: ...")};
  artifact.code = ".local .align 8 .b8 __local_depot0[8];";
  EXPECT_TRUE(
      resource_remarks(artifact, {.registers = 64, .spill_bytes = 8, .ctas_per_sm = 3}, 4).empty());
}

// Tests each limit of an H200's SM: threads, CTAs, registers and shared memory.
TEST(CtasThatFit, IsLimitedByEachResourceOfTheSm) {
  const program::GpuArch& arch = *program::find_gpu_arch("sm_90a");
  EXPECT_EQ(ctas_that_fit(arch, 256, 32, 0), 8) << "threads";
  EXPECT_EQ(ctas_that_fit(arch, 32, 16, 0), 32) << "CTAs";
  EXPECT_EQ(ctas_that_fit(arch, 256, 64, 0), 4) << "registers";
  EXPECT_EQ(ctas_that_fit(arch, 256, 65, 0), 3) << "registers of a warp come in units";
  EXPECT_EQ(ctas_that_fit(arch, 1024, 255, 0), 0) << "too many registers";
  EXPECT_EQ(ctas_that_fit(arch, 128, 32, 56 * 1024), 4)
      << "shared memory, including 1 KiB that the system reserves";
}

TEST_F(CudaDeviceTest, LaunchPacksSlotsAndGeometry) {
  auto device = fake_gpu(folder.path());
  program::CompileOptions options = device->base_options();
  options.num_warps = 8;
  auto kernel = device->load("plain", options);
  EXPECT_EQ(kernel->resources().registers, 32);
  EXPECT_EQ(kernel->resources().ctas_per_sm, 8);
  EXPECT_NE(kernel->resources().log.find("Used 32 registers"), std::string::npos);
  const uint64_t slots[2] = {0x1122334455667788, 42};
  auto* stream = reinterpret_cast<Stream>(uintptr_t{0x77});
  kernel->launch(slots, {5, 6, 7}, stream);
  FakeCudaControl::Launch launch;
  ASSERT_TRUE(fake_cuda().last_launch(&launch));
  EXPECT_EQ(launch.grid[0], 5u);
  EXPECT_EQ(launch.grid[1], 6u);
  EXPECT_EQ(launch.grid[2], 7u);
  EXPECT_EQ(launch.block, 256u);
  EXPECT_EQ(launch.cluster, 1u);
  EXPECT_EQ(launch.slot_bytes, 16u);
  EXPECT_EQ(memcmp(launch.slots, slots, 16), 0);
  EXPECT_EQ(launch.stream, stream);
  EXPECT_EQ(fake_cuda().current_context(), nullptr);
}

// The kernel's arguments are a scalar of one slot and a [100, 72] view with row stride 80.
TEST_F(CudaDeviceTest, TensorMapsAreParameters) {
  auto device = fake_gpu(folder.path());
  auto kernel = device->load("mapped", device->base_options());
  const uint64_t slots[6] = {7, 0x1000, 100, 72, 80, 1};
  kernel->launch(slots, {5, 1, 1}, nullptr);
  FakeCudaControl::Launch launch;
  ASSERT_TRUE(fake_cuda().last_launch(&launch));
  EXPECT_EQ(launch.slot_bytes, sizeof slots);
  EXPECT_EQ(memcmp(launch.slots, slots, sizeof slots), 0);
  EXPECT_EQ(launch.maps, 1);
  EXPECT_EQ(fake_cuda().calls_of("cuTensorMapEncodeTiled"), 1);
}

TEST_F(CudaDeviceTest, AcceptsSixteenTensorMapsAtMost) {
  auto device = fake_gpu(folder.path());
  auto kernel = device->load("mapped 16", device->base_options());
  const uint64_t slots[6] = {7, 0x1000, 100, 72, 80, 1};
  kernel->launch(slots, {5, 1, 1}, nullptr);
  FakeCudaControl::Launch launch;
  ASSERT_TRUE(fake_cuda().last_launch(&launch));
  EXPECT_EQ(launch.maps, 16);
  const std::string error = expect_error(
      Status::not_supported, [&] { device->load("mapped 17", device->base_options()); });
  EXPECT_NE(error.find("17 tensor maps; at most 256 and 16 are supported"), std::string::npos)
      << error;
}

// The row stride of a view with one row has no effect, and may have any value.
TEST_F(CudaDeviceTest, TensorMapOfASingleRowIgnoresTheStride) {
  auto device = fake_gpu(folder.path());
  auto kernel = device->load("mapped", device->base_options());
  for (const uint64_t stride : {0, 3, 80}) {
    const uint64_t slots[6] = {7, 0x1000, 1, 75, stride, 1};
    kernel->launch(slots, {5, 1, 1}, nullptr);
    FakeCudaControl::Launch launch;
    ASSERT_TRUE(fake_cuda().last_launch(&launch));
    EXPECT_EQ(launch.maps, 1) << stride;
  }
}

TEST_F(CudaDeviceTest, RejectsViewsThatNoTensorMapDescribes) {
  auto device = fake_gpu(folder.path());
  auto kernel = device->load("mapped", device->base_options());
  struct Case {
    uint64_t view[5];
    const char* why;
  };
  const Case cases[] = {
      {{0x1008, 100, 72, 80, 1}, "its address 0x1008 is not a multiple of 16 bytes"},
      {{0x1000, 0, 72, 80, 1}, "it has no elements"},
      {{0x1000, 100, 0, 80, 1}, "it has no elements"},
      {{0x1000, 100, 72, 76, 1},
       "the stride of dimension 0 is 76 elements (152 bytes), not a multiple of 16 bytes"},
      {{0x1000, 100, 72, 64, 1},
       "the stride of dimension 0 is 64 elements, less than its 72 columns"},
      {{0x1000, 100, 72, uint64_t{1} << 39, 1},
       "the stride of dimension 0 is 549755813888 elements, 2^40 bytes or more"},
      {{0x1000, (uint64_t{1} << 30) + 1, 72, 80, 1},
       "dimension 0 has 1073741825 elements, more than 2^30"}};
  for (const Case& each : cases) {
    uint64_t slots[6] = {7};
    std::copy(std::begin(each.view), std::end(each.view), slots + 1);
    const std::string error = expect_error(Status::invalid_argument, [&] {
      kernel->launch(slots, {5, 1, 1}, nullptr);
    });
    EXPECT_EQ(error,
              std::string("ligerdsl_fake: TMA copies cannot read the view at argument slot 1: ") +
                  each.why);
  }
  EXPECT_EQ(fake_cuda().calls_of("cuTensorMapEncodeTiled"), 0);
}

// A [2, 100, 8, 64] view: batch, row, head and column. Either the heads of a row or the rows of a
// head are contiguous. The stride of a dimension of size 1 may have any value.
TEST(TensorMap, ChecksFourDimensions) {
  const program::TensorMap map{
      .slot = 1, .type = DType::bf16, .box = {1, 64, 1, 64}, .swizzle = 128};
  struct Case {
    uint64_t sizes[4], strides[4];
    const char* why;
  };
  const Case cases[] = {
      {{2, 100, 8, 64}, {51200, 512, 64, 1}, ""},
      {{2, 100, 8, 64}, {51200, 64, 6400, 1}, ""},
      {{1, 100, 8, 64}, {0, 512, 64, 1}, ""},
      {{2, 100, 8, 64},
       {0, 512, 64, 1},
       "the stride of dimension 0 is 0 elements, less than its 64 columns"},
      {{2, 100, 8, 64},
       {51200, 512, 32, 1},
       "the stride of dimension 2 is 32 elements, less than its 64 columns"},
      {{2, 100, 8, 64},
       {51200, 516, 64, 1},
       "the stride of dimension 1 is 516 elements (1032 bytes), not a multiple of 16 bytes"},
      {{2, 0, 8, 64}, {51200, 512, 64, 1}, "it has no elements"}};
  for (const Case& each : cases) {
    uint64_t slots[10] = {7, 0x1000};
    std::copy(std::begin(each.sizes), std::end(each.sizes), slots + 2);
    std::copy(std::begin(each.strides), std::end(each.strides), slots + 6);
    EXPECT_EQ(runtime::reason_not_mapped(map, slots), each.why);
  }
}

// The map of a slice must give each row the address that it has in the view. Rows before and after
// the slice must be out of bounds of the map.
TEST(TensorMap, SlicedRowsKeepTheirAddress) {
  const program::TensorMap map{
      .slot = 0, .type = DType::bf16, .box = {64, 1, 64}, .swizzle = 128, .sliced = 0};
  EXPECT_EQ(map.dims(), 5u);
  constexpr uint64_t kAddress = 0x7f1200003000;
  const uint64_t slots[7] = {kAddress, 100, 8, 64, 520, 64, 1};
  ASSERT_EQ(runtime::reason_not_mapped(map, slots), "");
  runtime::cuda::Api api{};
  api.encode_map = ligerdsl::test::ptx::encode;
  runtime::cuda::TensorMap encoded;
  ASSERT_EQ(runtime::encode_map(api, map, slots, &encoded), runtime::cuda::success);
  ligerdsl::test::ptx::TensorMap found;
  memcpy(&found, &encoded, sizeof found);
  EXPECT_EQ(found.rank, 5);
  EXPECT_EQ(found.address, kAddress);
  EXPECT_EQ(std::vector<int32_t>(found.box, found.box + 5),
            (std::vector<int32_t>{64, 1, 64, 1, 1}));
  constexpr uint64_t kRows = program::TensorMap::kSliceRows;
  for (const auto& [begin, end] :
       {std::pair<uint64_t, uint64_t>{0, 100}, {37, 80}, {99, 100}, {50, 50}}) {
    const uint64_t size = end - begin;
    for (uint64_t row = 0; row < size; ++row) {
      const uint64_t places[] = {kRows - size + row, end,
                                 kRows};  // found.strides[0] is that of the innermost dimension
      EXPECT_LT(places[0], found.sizes[2]);
      uint64_t at = found.address;
      for (int i = 0; i < 3; ++i) at += places[i] * static_cast<uint64_t>(found.strides[1 + i]);
      EXPECT_EQ(at, kAddress + (begin + row) * 520 * 2);
    }
    EXPECT_EQ(kRows - size + size, found.sizes[2]);
    EXPECT_LT(end, found.sizes[3]);
    EXPECT_LT(kRows, found.sizes[4]);
  }
  const uint64_t far[7] = {kAddress, 100, 8, 64, uint64_t{1} << 34, 64, 1};
  EXPECT_EQ(runtime::reason_not_mapped(map, far),
            "the row stride of its slices is 17179869184 elements, 2^34 or more");
}

TEST_F(CudaDeviceTest, ClusterMultipliesTheGrid) {
  auto device = fake_gpu(folder.path());
  program::CompileOptions options = device->base_options();
  options.num_ctas = 4;
  auto kernel = device->load("plain", options);
  const uint64_t slots[2] = {};
  kernel->launch(slots, {3, 1, 1}, nullptr);
  FakeCudaControl::Launch launch;
  ASSERT_TRUE(fake_cuda().last_launch(&launch));
  EXPECT_EQ(launch.grid[0], 12u);
  EXPECT_EQ(launch.cluster, 4u);
}

TEST_F(CudaDeviceTest, ClusterOfSixteenSetsTheNonPortableAttribute) {
  auto device = fake_gpu(folder.path());
  program::CompileOptions options = device->base_options();
  options.num_ctas = 8;
  device->load("plain", options);
  EXPECT_FALSE(fake_cuda().large_clusters());
  options.num_ctas = 16;
  auto kernel = device->load("plain", options);
  EXPECT_TRUE(fake_cuda().large_clusters());
  const uint64_t slots[2] = {};
  kernel->launch(slots, {2, 3, 1}, nullptr);
  FakeCudaControl::Launch launch;
  ASSERT_TRUE(fake_cuda().last_launch(&launch));
  EXPECT_EQ(launch.grid[0], 32u);
  EXPECT_EQ(launch.cluster, 16u);
  for (int64_t x : {int64_t{1} << 27, INT64_MAX})
    expect_error(Status::invalid_shape, [&] { kernel->launch(slots, {x, 1, 1}, nullptr); });
}

bool launch_overlaps(LoadedKernel& kernel, const Grid& grid, uintptr_t stream) {
  const uint64_t slots[2] = {};
  kernel.launch(slots, grid, reinterpret_cast<Stream>(stream));
  FakeCudaControl::Launch launch{};
  EXPECT_TRUE(fake_cuda().last_launch(&launch));
  return launch.overlaps;
}

TEST_F(CudaDeviceTest, LaunchesOverlapIfKernelAndStreamAllowIt) {
  auto device = fake_gpu(folder.path());
  EXPECT_TRUE(device->base_options().launch_overlap);
  auto kernel = device->load("plain", device->base_options());
  EXPECT_TRUE(launch_overlaps(*kernel, {1, 1, 1}, 0x77));
  EXPECT_TRUE(launch_overlaps(*kernel, {1, 1, 1}, 2)) << "the thread's default stream";
  EXPECT_FALSE(launch_overlaps(*kernel, {1, 1, 1}, 0)) << "the legacy default stream";
  EXPECT_FALSE(launch_overlaps(*kernel, {1, 1, 1}, 1)) << "the legacy default stream";
  program::CompileOptions off = device->base_options();
  off.launch_overlap = false;
  EXPECT_FALSE(launch_overlaps(*device->load("plain", off), {1, 1, 1}, 0x77));
  program::CompileOptions cluster = device->base_options();
  cluster.num_ctas = 4;
  EXPECT_TRUE(launch_overlaps(*device->load("plain", cluster), {1, 1, 1}, 0x77));
}

// The fake GPU can run 8 CTAs on each of 132 SMs. A launch of 924 CTAs fills 7 places per SM; only
// a larger launch needs the eighth.
TEST_F(CudaDeviceTest, PersistentKernelsOverlapOnlyIfTheyFillTheGpu) {
  auto device = fake_gpu(folder.path());
  auto kernel = device->load("persistent", device->base_options());
  EXPECT_FALSE(launch_overlaps(*kernel, {132, 1, 1}, 0x77));
  EXPECT_FALSE(launch_overlaps(*kernel, {924, 1, 1}, 0x77));
  EXPECT_TRUE(launch_overlaps(*kernel, {925, 1, 1}, 0x77));
  EXPECT_TRUE(launch_overlaps(*kernel, {132, 8, 1}, 0x77));
}

// The fake GPU runs at most 8 CTAs on each of its 132 SMs at once, or 30 clusters.
TEST_F(CudaDeviceTest, DynamicPersistentKernelStartsOneWaveOfCtas) {
  auto device = fake_gpu(folder.path());
  auto kernel = device->load("next_program", device->base_options());
  program::CompileOptions clustered = device->base_options();
  clustered.num_ctas = 4;
  auto cluster = device->load("next_program", clustered);
  const auto ctas = [&](runtime::LoadedKernel& kernel, int64_t programs) {
    const uint64_t slots[2] = {};
    kernel.launch(slots, {programs, 1, 1}, nullptr);
    FakeCudaControl::Launch launch;
    return fake_cuda().last_launch(&launch) ? launch.grid[0] : 0u;
  };
  EXPECT_EQ(ctas(*kernel, 100), 100u);
  EXPECT_EQ(ctas(*kernel, 5000), 8u * 132);
  EXPECT_EQ(ctas(*kernel, INT32_MAX), 8u * 132);
  EXPECT_EQ(ctas(*cluster, 29), 29u * 4);
  EXPECT_EQ(ctas(*cluster, 5000), 30u * 4);
}

TEST_F(CudaDeviceTest, OldDriversLaunchWithoutOverlap) {
  for (auto [version, overlaps] : {std::pair(12020, false), {12030, true}, {13000, true}}) {
    fake_cuda().set_driver(version, 0, 1);
    const test::TempFolder fresh;
    auto device = fake_gpu(fresh.path());
    EXPECT_EQ(launch_overlaps(*device->load("plain", device->base_options()), {1, 1, 1}, 0x77),
              overlaps)
        << version;
  }
}

// A capture records the overlap attribute, so the runtime need not ask whether the stream is
// captured.
TEST_F(CudaDeviceTest, CapturedLaunchesOverlap) {
  auto device = fake_gpu(folder.path());
  auto kernel = device->load("plain", device->base_options());
  fake_cuda().set_capturing(true);
  EXPECT_TRUE(launch_overlaps(*kernel, {1, 1, 1}, 0x77));
  EXPECT_EQ(fake_cuda().calls_of("cuStreamIsCapturing"), 0);
}

TEST_F(CudaDeviceTest, EmptyGridLaunchesNothingAndHugeGridIsChecked) {
  auto device = fake_gpu(folder.path());
  auto kernel = device->load("plain", device->base_options());
  const uint64_t slots[2] = {};
  FakeCudaControl::Launch launch;
  for (Grid grid : {Grid{0, 1, 1}, Grid{1, 0, 1}, Grid{1, 1, 0}})
    kernel->launch(slots, grid, nullptr);
  EXPECT_FALSE(fake_cuda().last_launch(&launch));
  kernel->launch(slots, {INT32_MAX, 65535, 65535}, nullptr);
  EXPECT_TRUE(fake_cuda().last_launch(&launch));
  for (Grid grid : {Grid{int64_t{1} << 31, 1, 1}, Grid{1, 65536, 1}, Grid{1, 1, 65536},
                    Grid{-1, 1, 1}, Grid{INT64_MAX, 1, 1}})
    expect_error(Status::invalid_shape, [&] { kernel->launch(slots, grid, nullptr); });
  EXPECT_FALSE(fake_cuda().last_launch(&launch));
}

TEST_F(CudaDeviceTest, LargeSharedMemorySetsTheAttribute) {
  auto device = fake_gpu(folder.path());
  device->load("plain", device->base_options());
  EXPECT_EQ(fake_cuda().last_shared_limit(), 0);
  auto kernel = device->load("shared", device->base_options());
  EXPECT_EQ(fake_cuda().last_shared_limit(), 100 << 10);
  EXPECT_EQ(kernel->resources().shared_bytes, 100 << 10);
}

TEST_F(CudaDeviceTest, LaunchMakesFourDriverCalls) {
  auto device = fake_gpu(folder.path());
  auto kernel = device->load("plain", device->base_options());
  const uint64_t slots[2] = {};
  const int64_t before = fake_cuda().call_count();
  kernel->launch(slots, {}, nullptr);
  EXPECT_EQ(fake_cuda().call_count() - before, 4);  // get current, push, launch, pop
}

TEST_F(CudaDeviceTest, CubinComesFromDiskTheSecondTime) {
  LoadReport report;
  fake_gpu(folder.path())->load("plain", fake_gpu(folder.path())->base_options(), &report);
  EXPECT_EQ(report.origin, Origin::compiled);
  EXPECT_FALSE(report.cubin_from_disk);
  const int64_t links = fake_cuda().calls_of("cuLinkCreate"), compiles = test::fake_compiles();
  auto device = fake_gpu(folder.path());
  device->load("plain", device->base_options(), &report);
  EXPECT_EQ(report.origin, Origin::disk);
  EXPECT_TRUE(report.cubin_from_disk);
  EXPECT_EQ(fake_cuda().calls_of("cuLinkCreate"), links);
  EXPECT_EQ(test::fake_compiles(), compiles);
  // A new driver or chip reuses the PTX, but not the cubin, which depends on both.
  fake_cuda().set_driver(13010, 0, 1);
  auto newer = fake_gpu(folder.path());
  program::CompileOptions options = newer->base_options();
  options.ptx_version = 90;
  newer->load("plain", options, &report);
  EXPECT_EQ(report.origin, Origin::disk);
  EXPECT_FALSE(report.cubin_from_disk);
}

TEST_F(CudaDeviceTest, AssemblerErrorsCarryTheLog) {
  auto device = fake_gpu(folder.path());
  std::string text = expect_error(Status::compile_failed,
                                  [&] { device->load("syntax error", device->base_options()); });
  EXPECT_NE(text.find("line 3; fatal : Parsing error"), std::string::npos) << text;
  EXPECT_EQ(device->disk_cache().usage().entries, 0);
  text = expect_error(Status::driver_too_old,
                      [&] { device->load("needs .version 9.9", device->base_options()); });
  EXPECT_NE(text.find("accepts PTX up to 9.0"), std::string::npos) << text;
  EXPECT_NE(text.find("PTX version 8.0"), std::string::npos) << text;
}

TEST_F(CudaDeviceTest, AllocatesFillsCopiesAndTimes) {
  auto device = fake_gpu(folder.path());
  auto* memory = static_cast<uint8_t*>(device->alloc(1000));
  device->fill(memory, 7, 1000, nullptr);
  uint8_t host[1000] = {};
  device->copy(host, memory, 1000, nullptr);
  EXPECT_EQ(host[999], 7);
  device->free(memory);
  device->free(device->alloc(0));
  device->free(nullptr);
  EXPECT_GT(device->free_memory(), 0);
  Stream stream = device->create_stream();
  const Measurement result = measure(*device, [](Stream) {});
  EXPECT_EQ(result.median_ms, 0.25);
  EXPECT_EQ(result.q80_ms, 0.25);
  device->destroy_stream(stream);
  device.reset();
  EXPECT_EQ(fake_cuda().live_objects(), 0);
}

TEST_F(CudaDeviceTest, OutOfMemoryLeavesTheContextUsable) {
  auto device = fake_gpu(folder.path());
  fake_cuda().fail_call(4, cuda::error_out_of_memory);  // the fourth call allocates
  const std::string text =
      expect_error(Status::out_of_device_memory, [&] { device->alloc(12345); });
  EXPECT_NE(text.find("12345"), std::string::npos) << text;
  device->free(device->alloc(100));
  EXPECT_EQ(fake_cuda().current_context(), nullptr);
  EXPECT_EQ(fake_cuda().capture_mode(), 0);
}

// Uses a device and releases everything, and makes driver call k of the sequence fail. Repeats this
// for every k.
TEST_F(CudaDeviceTest, EveryFailingCallIsAnErrorWithoutLeaks) {
  auto everything = [&] {
    const test::TempFolder fresh;
    auto device = fake_gpu(fresh.path());
    auto kernel = device->load("shared", device->base_options());
    const uint64_t slots[2] = {};
    kernel->launch(slots, {}, nullptr);
    void* memory = device->alloc(64);
    device->free(memory);
    device->synchronize(nullptr);
  };
  everything();
  const int64_t calls = fake_cuda().call_count();
  ASSERT_GT(calls, 30);
  for (int64_t k = 1; k <= calls; ++k) {
    fake_cuda().reset();
    fake_cuda().fail_call(k, cuda::error_out_of_memory);
    bool failed = false;
    try {
      everything();
    } catch (const Error& error) {
      failed = true;
      EXPECT_TRUE(error.status() == Status::out_of_device_memory ||
                  error.status() == Status::no_device)
          << k << error.what();
    }
    // If the failing call releases an object, there is no error, and at most this object leaks. If
    // it pops a context, that context stays on the stack.
    EXPECT_LE(fake_cuda().live_objects(), failed ? 0 : 1) << k;
    EXPECT_EQ(fake_cuda().capture_mode() == 0 || !failed, true) << k;
    // The process must stay usable.
    fake_cuda().reset();
    everything();
    EXPECT_EQ(fake_cuda().live_objects(), 0) << k;
  }
}

TEST_F(CudaDeviceTest, StickyErrorsAreAttributedToEarlierWork) {
  auto device = fake_gpu(folder.path());
  auto kernel = device->load("plain", device->base_options());
  fake_cuda().set_sticky(cuda::error_illegal_address);
  const uint64_t slots[2] = {};
  const std::string text =
      expect_error(Status::sticky_device_error, [&] { kernel->launch(slots, {}, nullptr); });
  EXPECT_NE(text.find("earlier"), std::string::npos) << text;
  EXPECT_NE(text.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << text;
  expect_error(Status::sticky_device_error, [&] { device->synchronize(nullptr); });
}

TEST_F(CudaDeviceTest, LoadDuringACaptureKeepsItValid) {
  auto device = fake_gpu(folder.path());
  fake_cuda().set_capturing(true);
  EXPECT_TRUE(device->capturing(nullptr));
  EXPECT_TRUE(device->capturing(reinterpret_cast<Stream>(uintptr_t{1})));
  device->load("plain", device->base_options());
  device->free(device->alloc(10));
  fake_cuda().set_capturing(false);
  EXPECT_FALSE(device->capturing(nullptr));
}

TEST_F(CudaDeviceTest, RejectsForkedChildren) {
  auto device = fake_gpu(folder.path());
  auto kernel = device->load("plain", device->base_options());
  EXPECT_TRUE(test::passes_in_child([&] {
    const uint64_t slots[2] = {};
    expect_error(Status::forked_process, [&] { kernel->launch(slots, {}, nullptr); });
    expect_error(Status::forked_process, [&] { device->alloc(1); });
    device->free(&device);  // must not report an error
    kernel.reset();
    device.reset();
    return true;
  }));
}

TEST_F(CudaDeviceTest, ReleaseAfterDriverShutdownIsSilent) {
  auto device = fake_gpu(folder.path());
  auto kernel = device->load("plain", device->base_options());
  void* memory = device->alloc(10);
  fake_cuda().fail_call(1, cuda::error_deinitialized);
  device->free(memory);
  fake_cuda().fail_call(1, cuda::error_deinitialized);
  kernel.reset();
  device.reset();
}

}  // namespace
}  // namespace ligerdsl::runtime
