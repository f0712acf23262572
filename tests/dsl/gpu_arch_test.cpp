#include "program/gpu_arch.h"

#include <gtest/gtest.h>

#include "program/options.h"

namespace ligerdsl::program {
namespace {

CompileOptions options_for(std::string_view arch) {
  CompileOptions options;
  options.target = Target::nvptx;
  options.arch = arch;
  return options;
}

TEST(GpuArch, RowsAreConsistent) {
  int capability = 0;
  for (const GpuArch& arch : gpu_archs()) {
    SCOPED_TRACE(arch.name);
    EXPECT_EQ(find_gpu_arch(arch.name), &arch);
    const std::string name = arch.name;
    EXPECT_EQ(name.substr(0, 3), "sm_");
    EXPECT_EQ(std::stoi(name.substr(3)), arch.capability);
    EXPECT_GE(arch.capability, capability) << "rows must be sorted by capability";
    capability = arch.capability;
    EXPECT_EQ(arch.shared_per_cta + arch.shared_reserved, arch.shared_per_sm);
    EXPECT_EQ(arch.threads_per_sm % 512, 0);
    EXPECT_LE(arch.max_ctas_per_sm, kMaxCtasPerSm);
    EXPECT_LE(arch.max_cluster, kMaxCluster);
    EXPECT_EQ(arch.max_cluster > 1, arch.cluster_ptx >= arch.first_ptx);
    EXPECT_GT(arch.sms, 0);
    EXPECT_GT(arch.resident_budget(1), 64 * 1024);
    EXPECT_GE(arch.large_bytes(), arch.l2_bytes);
    const GpuArch* of_device = arch_of_capability(arch.capability / 10, arch.capability % 10);
    ASSERT_TRUE(of_device);
    EXPECT_EQ(of_device->capability, arch.capability);
    EXPECT_EQ(of_device == &arch, arch.of_devices);
    EXPECT_EQ(refused(options_for(arch.name)), "");
  }
}

TEST(GpuArch, OnlySm90aHasWgmma) {
  for (const GpuArch& arch : gpu_archs())
    EXPECT_EQ(arch.wgmma, std::string_view(arch.name) == "sm_90a") << arch.name;
}

TEST(GpuArch, CapabilitySelectsTheLatestArchOfItsGeneration) {
  EXPECT_STREQ(arch_of_capability(9, 0)->name, "sm_90a");
  EXPECT_STREQ(arch_of_capability(10, 0)->name, "sm_100");
  EXPECT_STREQ(arch_of_capability(10, 1)->name, "sm_100");
  EXPECT_STREQ(arch_of_capability(10, 3)->name, "sm_103");
  EXPECT_STREQ(arch_of_capability(12, 1)->name, "sm_120");
  EXPECT_EQ(arch_of_capability(7, 5), nullptr);
  EXPECT_EQ(arch_of_capability(11, 0), nullptr);
  EXPECT_EQ(find_gpu_arch("sm_75"), nullptr);
}

// CUDA reserves `shared_reserved` bytes of the SM's shared memory for each CTA.
TEST(GpuArch, SharedBudgetDividesTheSmAmongCtas) {
  for (const GpuArch& arch : gpu_archs())
    for (int ctas : {0, 1, 2, 3, 6, 16}) {
      const int64_t each = arch.shared_budget(ctas);
      EXPECT_LE(each, arch.shared_per_cta);
      EXPECT_LE((each + arch.shared_reserved) * std::max(1, ctas), arch.shared_per_sm);
      EXPECT_GT((each + arch.shared_reserved + 1) * std::max(1, ctas), arch.shared_per_sm)
          << "the CTAs must share all bytes";
    }
  EXPECT_EQ(find_gpu_arch("sm_120")->shared_budget(1), 99 * 1024);
  EXPECT_EQ(find_gpu_arch("sm_90a")->ctas_per_sm(16), 4);
  EXPECT_EQ(find_gpu_arch("sm_120")->ctas_per_sm(16), 3) << "an SM of sm_120 has 1536 threads";
  EXPECT_EQ(find_gpu_arch("sm_86")->ctas_per_sm(1), 16);
  EXPECT_EQ(find_gpu_arch("sm_90a")->register_bytes(640), 409)
      << "256 KB of registers for 640 threads";
  EXPECT_EQ(find_gpu_arch("sm_90a")->register_bytes(32), 1020);
}

TEST(GpuArch, RejectsOptionsBeyondItsLimits) {
  CompileOptions options = options_for("sm_120");
  options.num_ctas = 8;
  EXPECT_EQ(refused(options), "");
  options.num_ctas = 16;
  EXPECT_EQ(refused(options),
            "num_ctas is 16, but sm_120 has clusters of at most 8 CTAs; use num_ctas = 8 or less");
  options.arch = "sm_90a";
  EXPECT_EQ(refused(options), "");
  options.ptx_version = 84;
  EXPECT_EQ(refused(options),
            "sm_90a with clusters needs PTX 8.6, but the driver accepts up to PTX 8.4; update the "
            "NVIDIA driver");
  options = options_for("sm_80");
  options.min_ctas_per_sm = 33;
  EXPECT_EQ(refused(options), "min_ctas_per_sm must be 1 to 32, or 0 for no minimum, got 33");
  options.min_ctas_per_sm = 0;
  for (const int registers : {-1, 1, 23, 256}) {  // ptxas silently raises caps below 24 to 24
    options.max_registers = registers;
    EXPECT_EQ(refused(options),
              "max_registers must be 24 to 255, or 0 for no cap, got " + std::to_string(registers));
  }
  options.max_registers = 24;
  EXPECT_EQ(refused(options), "");
}

}  // namespace
}  // namespace ligerdsl::program
