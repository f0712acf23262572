// Tests every operation of the library on every architecture of the table. At any width, a plan
// must not use features or shared memory that the architecture lacks. For the architectures with
// the least shared memory, the plans are also compiled.
#include "kernels/catalog.h"
#include "program/gpu_arch.h"
#include "step_options.h"

namespace ligerdsl::testing::every_arch_test {
namespace {

constexpr int kNewestPtx = 90;

// Returns the options of an operation with this type and width, and with its optional gradient.
MetaValues settingsOf(const kernels::CatalogEntry& entry, const std::string& type, int64_t width) {
  MetaValues settings;
  for (const MetaField& field : entry.options) {
    if (field.name == "type" || field.name == "weight_type") settings[field.name] = type;
    if (field.name == "cols" || field.name == "classes")
      settings[field.name] = std::to_string(width);
    if (field.name == "with_gradient") settings[field.name] = "true";
  }
  return settings;
}

bool hasWidth(const kernels::CatalogEntry& entry) {
  return std::any_of(entry.options.begin(), entry.options.end(), [](const MetaField& field) {
    return field.name == "cols" || field.name == "classes";
  });
}

program::CompileOptions optionsOf(const kernels::Step& step, std::string_view arch) {
  return optionsOfStep(step, std::string(arch), kNewestPtx);
}

class EveryArch : public ::testing::TestWithParam<std::string> {
 protected:
  // Calls `check` with each step of each operation at these widths.
  template <class Check>
  void forEachStep(const std::vector<int64_t>& widths, const std::vector<std::string>& types,
                   const Check& check) {
    const kernels::Machine machine = kernels::gpu(GetParam(), /*sms=*/0, kNewestPtx);
    for (const kernels::CatalogEntry& entry : kernels::catalog())
      for (const std::string& type : types)
        for (int64_t width : widths) {
          SCOPED_TRACE(entry.name + " " + type + " " + std::to_string(width));
          for (const kernels::Step& step :
               entry.make(machine, settingsOf(entry, type, width)).steps)
            check(step);
          if (!hasWidth(entry)) break;
        }
  }
};

TEST_P(EveryArch, PlansStayWithinTheLimits) {
  const program::GpuArch& arch = *program::find_gpu_arch(GetParam());
  int clusters = 0;
  forEachStep(
      {64, 1000, 4096, 11008, 32768, 32776, 50257, 65536, 81920, 128256, 163840, 262144, 524288},
      {"bf16", "f32"}, [&](const kernels::Step& step) {
        EXPECT_EQ(program::refused(optionsOf(step, arch.name)), "") << step.program.name;
        EXPECT_LE(step.launch.num_ctas, arch.max_cluster) << step.program.name;
        clusters += step.launch.num_ctas > 1;
      });
  EXPECT_EQ(clusters > 0, arch.max_cluster > 1)
      << "kernels use clusters exactly if the GPU has them";
}

std::vector<std::string> archNames() {
  std::vector<std::string> names;
  for (const program::GpuArch& arch : program::gpu_archs()) names.emplace_back(arch.name);
  return names;
}

const auto ownName = [](const auto& info) { return info.param; };

INSTANTIATE_TEST_SUITE_P(All, EveryArch, ::testing::ValuesIn(archNames()), ownName);

// The two architectures with the least shared memory: without and with clusters and bulk copies.
class LeastShared : public EveryArch {};

TEST_P(LeastShared, CompilesEveryPlan) {
  const program::GpuArch& arch = *program::find_gpu_arch(GetParam());
  forEachStep({4096, 32768, 65536, 128256, 262144}, {"f32"}, [&](const kernels::Step& step) {
    program::Artifact artifact;
    ASSERT_NO_THROW(artifact = compileProgram(step.program, optionsOf(step, arch.name)))
        << step.program.name;
    EXPECT_LE(artifact.shared_bytes, arch.shared_per_cta) << step.program.name;
  });
}

INSTANTIATE_TEST_SUITE_P(All, LeastShared, ::testing::Values("sm_86", "sm_120"), ownName);

// An SM of sm_120 holds three CTAs of 512 threads, so min_ctas_per_sm = 4 becomes 3.
TEST(EveryArchOnce, MinCtasPerSmIsCappedByTheSm) {
  for (const auto& [arch, floor] : {std::pair{"sm_90a", 4}, {"sm_120", 3}, {"sm_86", 3}}) {
    program::CompileOptions options = withoutOverlap();
    options.target = program::Target::nvptx;
    options.arch = arch;
    options.num_warps = 16;
    options.min_ctas_per_sm = 4;
    KernelBuilder k("floor");
    k.view("x", f32, {512}).partition({512}).store({0}, k.zeros({512}, f32));
    const std::string ptx = compileProgram(k.finish(), options).code;
    EXPECT_NE(ptx.find(".minnctapersm " + std::to_string(floor)), std::string::npos) << arch << "\n"
                                                                                     << ptx;
  }
}

}  // namespace
}  // namespace ligerdsl::testing::every_arch_test
