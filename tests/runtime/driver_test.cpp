#include "runtime/cuda/driver.h"

#include <thread>

#include "program/gpu_arch.h"
#include "support.h"

namespace ligerdsl::runtime {
namespace {

using test::expect_error;
using test::fake_cuda;
using test::fake_driver;

class DriverTest : public ::testing::Test {
 protected:
  void SetUp() override { fake_cuda().reset(); }
};

TEST_F(DriverTest, ErrorNamesMissingLibrary) {
  const std::string text =
      expect_error(Status::no_device, [] { Driver::open("/nowhere/libcuda.so.1"); });
  EXPECT_NE(text.find("/nowhere/libcuda.so.1"), std::string::npos) << text;
  EXPECT_NE(text.find("CPU"), std::string::npos) << text;
}

TEST_F(DriverTest, LibraryWithoutTheFunctionsIsTooOld) {
  expect_error(Status::driver_too_old, [] { Driver::open("libm.so.6"); });
}

TEST_F(DriverTest, ErrorNamesTheStubDriver) {
  fake_cuda().set_driver(13000, cuda::error_stub_library, 1);
  EXPECT_NE(expect_error(Status::no_device, [] { fake_driver(); }).find("stub driver"),
            std::string::npos);
}

TEST_F(DriverTest, InitFailuresAreErrors) {
  fake_cuda().set_driver(13000, cuda::error_no_device, 0);
  EXPECT_NE(expect_error(Status::no_device, [] { fake_driver(); }).find("CUDA_VISIBLE_DEVICES"),
            std::string::npos);
  fake_cuda().set_driver(13000, 999, 0);
  EXPECT_NE(expect_error(Status::no_device, [] { fake_driver(); }).find("999"), std::string::npos);
  fake_cuda().set_driver(13000, 0, 0);
  expect_error(Status::no_device, [] { fake_driver(); });
  fake_cuda().set_driver(11080, 0, 1);
  EXPECT_NE(expect_error(Status::driver_too_old, [] { fake_driver(); }).find("11.8"),
            std::string::npos);
}

TEST_F(DriverTest, MapsDriverVersionsToPtxVersions) {
  EXPECT_EQ(ptx_version_of_driver(12000), 80);
  EXPECT_EQ(ptx_version_of_driver(12040), 84);
  EXPECT_EQ(ptx_version_of_driver(12050), 85);
  EXPECT_EQ(ptx_version_of_driver(12060), 85);
  EXPECT_EQ(ptx_version_of_driver(12080), 87);
  EXPECT_EQ(ptx_version_of_driver(12090), 88);
  EXPECT_EQ(ptx_version_of_driver(13000), 90);
  EXPECT_EQ(ptx_version_of_driver(11080), 78);
  const auto arch_of = [](int major, int minor) {
    fake_cuda().set_capability(major, minor);
    return fake_driver()->device(0).arch;
  };
  for (const program::GpuArch& arch : program::gpu_archs()) {
    if (!arch.of_devices) continue;
    EXPECT_EQ(arch_of(arch.capability / 10, arch.capability % 10), arch.name);
  }
  EXPECT_EQ(arch_of(10, 1), "sm_100");
  EXPECT_EQ(arch_of(12, 1), "sm_120");
}

TEST_F(DriverTest, DescribesDevices) {
  auto driver = fake_driver();
  EXPECT_EQ(driver->ptx_version(), 90);
  EXPECT_EQ(driver->device(0).arch, "sm_90a");
  expect_error(Status::invalid_device, [&] { driver->device(1); });
  expect_error(Status::invalid_device, [&] { driver->device(-1); });
  fake_cuda().set_capability(7, 5);
  EXPECT_NE(expect_error(Status::arch_not_supported, [&] { driver->device(0); })
                .find("7.5; 8.0 (Ampere) or later is needed"),
            std::string::npos);
  fake_cuda().set_capability(11, 0);
  EXPECT_NE(expect_error(Status::arch_not_supported, [&] { driver->device(0); })
                .find("11.0, which this version of libligerdsl does not support"),
            std::string::npos);
}

TEST_F(DriverTest, EveryFailingCallOfOpenIsAnError) {
  for (int64_t k = 1; k <= 3; ++k) {
    fake_cuda().reset();
    fake_cuda().fail_call(k, cuda::error_out_of_memory);
    EXPECT_THROW(fake_driver(), Error) << k;
  }
}

TEST_F(DriverTest, ScopeRestoresTheCallersContext) {
  PrimaryContext context(fake_driver(), 0);
  EXPECT_EQ(fake_cuda().current_context(), nullptr);
  {
    PrimaryContext::Scope scope(context);
    EXPECT_NE(fake_cuda().current_context(), nullptr);
    const int64_t pushes = fake_cuda().calls_of("cuCtxPushCurrent");
    PrimaryContext::Scope nested(context);  // is already current, so not pushed again
    EXPECT_EQ(fake_cuda().calls_of("cuCtxPushCurrent"), pushes);
  }
  EXPECT_EQ(fake_cuda().current_context(), nullptr);
  int foreign = 0;
  fake_cuda().push_foreign_context(&foreign);
  {
    PrimaryContext::RelaxedScope scope(context);
    EXPECT_NE(fake_cuda().current_context(), &foreign);
    EXPECT_EQ(fake_cuda().capture_mode(), cuda::capture_mode_relaxed);
  }
  EXPECT_EQ(fake_cuda().current_context(), &foreign);
  EXPECT_EQ(fake_cuda().capture_mode(), 0);
  fake_cuda().pop_context();
}

TEST_F(DriverTest, ContextIsReleased) {
  { PrimaryContext context(fake_driver(), 0); }
  EXPECT_EQ(fake_cuda().live_objects(), 0);
}

TEST_F(DriverTest, RejectsForkedChildrenWithAHint) {
  auto context = std::make_unique<PrimaryContext>(fake_driver(), 0);
  EXPECT_TRUE(test::passes_in_child([&] {
    const std::string text =
        expect_error(Status::forked_process, [&] { PrimaryContext::Scope scope(*context); });
    EXPECT_NE(text.find("fork"), std::string::npos);
    expect_error(Status::forked_process, [] { fake_driver(); });
    context.reset();  // must not report an error
    return true;
  }));
  PrimaryContext::Scope parent_still_works(*context);
}

TEST_F(DriverTest, MapsDriverErrorsToStatuses) {
  EXPECT_EQ(status_of_result(2), Status::out_of_device_memory);
  EXPECT_EQ(status_of_result(4), Status::driver_shutdown);
  for (int sticky : {214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719})
    EXPECT_EQ(status_of_result(sticky), Status::sticky_device_error) << sticky;
  EXPECT_EQ(status_of_result(701), Status::execution_failed);
  EXPECT_EQ(status_of_result(900), Status::capture_unsafe);
  EXPECT_EQ(status_of_result(222), Status::driver_too_old);
}

}  // namespace
}  // namespace ligerdsl::runtime
