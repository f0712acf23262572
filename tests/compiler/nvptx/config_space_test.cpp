// Tests a sample of each kernel's schedules. The compiler accepts every schedule that valid()
// accepts for an architecture, and rejects those that valid() rejects because of the architecture.
#include <random>

#include "kernels/catalog.h"
#include "kernels/norm/layer_norm.h"
#include "program/gpu_arch.h"
#include "step_options.h"

namespace ligerdsl::testing::config_space_test {
namespace {

constexpr int kNewestPtx = 90;

program::CompileOptions optionsOf(const kernels::Step& step, std::string_view arch) {
  return optionsOfStep(step, std::string(arch), kNewestPtx);
}

// Returns options for a width. At width 4096, weights and biases are f32. At other widths they have
// the rows' type.
MetaValues optionsOf(const kernels::CatalogEntry& entry, const std::string& type, int64_t width) {
  const std::string weights = width == 4096 ? "f32" : type;
  MetaValues options;
  for (const MetaField& field : entry.options) {
    if (field.name == "type") options[field.name] = type;
    if (field.name == "weight_type" || field.name == "bias_type") options[field.name] = weights;
    if (field.name == "cols" || field.name == "classes")
      options[field.name] = std::to_string(width);
    if (field.name == "q_heads") options[field.name] = "12";
    if (field.name == "with_gradient") options[field.name] = "true";
  }
  return options;
}

// Number of sampled configurations per operation and width, on GPUs other than sm_90a.
#ifdef LIGERDSL_NIGHTLY
constexpr int kOfOthers = 3;
#else
constexpr int kOfOthers = 1;
#endif

class ConfigSpace : public ::testing::TestWithParam<std::string> {};

TEST_P(ConfigSpace, ValidConfigurationsCompile) {
  constexpr int kTries = 2000;
  const int of_each = GetParam() == "sm_90a" ? 3 : kOfOthers;
  const program::GpuArch& arch = *program::find_gpu_arch(GetParam());
  const kernels::Machine machine = kernels::gpu(GetParam(), /*sms=*/0, kNewestPtx);
  std::mt19937 random(7);
  for (const kernels::CatalogEntry& entry : kernels::catalog()) {
    if (!entry.configured()) continue;
    for (const auto& [type, width] : {std::pair{"bf16", 4096}, {"f32", 1000}, {"bf16", 65536}}) {
      const MetaValues options = optionsOf(entry, type, width);
      const std::vector<MetaField> fields = entry.heuristic(machine, options);
      int compiled = 0;
      for (int i = 0; i < kTries && compiled < of_each; ++i) {
        MetaValues config;
        for (const MetaField& field : fields)
          if (random() % 2) config[field.name] = field.choices[random() % field.choices.size()];
        if (!entry.valid(machine, options, config).empty()) continue;
        ++compiled;
        std::string trace = entry.name + " " + type + " " + std::to_string(width);
        for (const auto& [name, value] : config) trace += " " + name + "=" + value;
        SCOPED_TRACE(trace);
        for (const kernels::Step& step : entry.make_with(machine, options, config).steps) {
          program::Artifact artifact;
          ASSERT_NO_THROW(artifact = compileProgram(step.program, optionsOf(step, arch.name)))
              << step.program.name;
          EXPECT_LE(artifact.shared_bytes, arch.shared_per_cta) << step.program.name;
        }
      }
      EXPECT_EQ(compiled, of_each)
          << entry.name << ": the random search found too few valid configurations";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ConfigSpace, ::testing::Values("sm_80", "sm_90a", "sm_120a"),
                         [](const auto& info) { return info.param; });

TEST(ConfigLimits, RejectedClustersDoNotCompile) {
  const kernels::LayerNormOptions options{.cols = 65536};
  const auto& kernel = kernels::layer_norm_forward_kernel;
  for (const auto& [arch, ctas] : {std::pair{"sm_80", 2}, {"sm_120a", 16}}) {
    const kernels::Machine machine = kernels::gpu(arch, 0, kNewestPtx);
    const kernels::LayerNormForwardConfig config{{.keep = kernels::Keep::cluster,
                                                  .num_warps = 4,
                                                  .vectors = 1,
                                                  .num_ctas = ctas,
                                                  .min_ctas_per_sm = 2}};
    EXPECT_NE(kernel.valid(machine, options, config), "") << arch;
    const kernels::Step step = kernel.build(machine, options, config).steps.back();
    EXPECT_NE(program::refused(optionsOf(step, arch)), "") << arch;
    EXPECT_ANY_THROW(compileProgram(step.program, optionsOf(step, arch))) << arch;
  }
}

}  // namespace
}  // namespace ligerdsl::testing::config_space_test
